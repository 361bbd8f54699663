import { signal } from "@preact/signals";
import { csvFile } from "../lists/csv";
import { Dialog } from "../parts/dialog";
import { Switch } from "../parts/fields";
import { ankiFile, type Separator } from "./anki";
import { download, fileName } from "./download";
import type { GlossaryEntry } from "./glossary";
import type { Handout } from "./handout";
import { GlossarySheet, print } from "./sheets";

const separator = signal<Separator>("tab");

/** The words of a text that are explained, with a note for each. */
export function GlossaryDialog({ handout }: { handout: Handout }) {
  const { withUnlisted } = handout.settings.value;
  const all = handout.candidates.value;
  const isEmpty = !handout.entries.value.length;
  return (
    <Dialog title="Glossary and cards" onClose={() => (handout.open.value = null)}>
      <Switch
        label="Also the words that are not in the list"
        isOn={withUnlisted}
        onChange={(withUnlisted) => handout.change({ withUnlisted })}
      />
      {all.length ? (
        <Entries handout={handout} entries={all} />
      ) : (
        <p class="hint">This text has no new words, and none that you added.</p>
      )}
      <div class="buttons">
        <button
          type="button"
          class="primary"
          disabled={isEmpty}
          onClick={() => print(<GlossarySheet handout={handout} />)}
        >
          Print
        </button>
        <button type="button" disabled={isEmpty} onClick={() => saveCsv(handout)}>
          Save as table (.csv)
        </button>
        <button type="button" disabled={isEmpty} onClick={() => saveCards(handout)}>
          Save cards for Anki
        </button>
        <label class="inline-field">
          <span>divided by</span>
          <select
            value={separator.value}
            onChange={(event) => (separator.value = event.currentTarget.value as Separator)}
          >
            <option value="tab">tabs</option>
            <option value="comma">commas</option>
          </select>
        </label>
      </div>
    </Dialog>
  );
}

function Entries({ handout, entries }: { handout: Handout; entries: GlossaryEntry[] }) {
  const { notes, leftOut } = handout.settings.value;
  return (
    <ul class="entries" tabIndex={0} aria-label="Words of the glossary">
      {entries.map(({ key, word, lemma, rank, sentence }) => (
        <li key={key}>
          <div>
            <label class="switch">
              <input
                type="checkbox"
                checked={!leftOut.includes(key)}
                onChange={(event) =>
                  handout.change({
                    leftOut: event.currentTarget.checked ? leftOut.filter((other) => other !== key) : [...leftOut, key],
                  })
                }
              />
              <bdi>{word}</bdi>
            </label>
            <p class="hint">
              {lemma && lemma !== word && <bdi>{lemma}</bdi>} {rank && `rank ${rank.toLocaleString("en")}`}
            </p>
          </div>
          <div>
            <input
              type="text"
              dir="auto"
              maxLength={500}
              placeholder="Note"
              aria-label={`Note on ${word}`}
              value={notes[key] ?? ""}
              onInput={(event) => handout.change({ notes: { ...notes, [key]: event.currentTarget.value } })}
            />
            <p class="hint" lang={handout.lang} dir={handout.direction}>
              {sentence}
            </p>
          </div>
        </li>
      ))}
    </ul>
  );
}

function saveCsv(handout: Handout): void {
  const { notes } = handout.settings.peek();
  const rows = handout.entries
    .peek()
    .map(({ key, word, lemma, rank, sentence }) => [word, lemma ?? "", String(rank ?? ""), sentence, notes[key] ?? ""]);
  const file = csvFile(["word", "lemma", "rank", "sentence", "note"], rows);
  download(fileName(`${handout.title} glossary`, "csv"), file, "text/csv");
}

function saveCards(handout: Handout): void {
  const file = ankiFile(handout.entries.peek(), handout.settings.peek().notes, separator.peek(), handout.direction);
  // A name that Anki's import takes for both separators.
  download(fileName(`${handout.title} cards`, "txt"), file);
}
