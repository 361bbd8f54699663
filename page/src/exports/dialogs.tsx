import { signal } from "@preact/signals";
import { takeText } from "../exercises/making";
import { Button, Dialog, NumberField, Radios, Select, Switch, TextField } from "../parts/controls";
import { FaultNotice } from "../parts/notice";
import { show } from "../parts/tabs";
import { canRead, isRead } from "../state/connection";
import type { TextDocument } from "../text/document";
import { ReadingsSwitch } from "../text/readings";
import { bandName, BANDS } from "../text/words";
import type { Choice, GlossaryEntry } from "./contents";
import { ankiFile, csvFile, download, type Separator } from "./files";
import { type Handout, handoutOf, type OpenDialog } from "./handout";
import { GapSheet, GlossarySheet, print, TextSheet } from "./sheets";

const DIALOGS = {
  print: ["Print or save", PrintDialog],
  glossary: ["Glossary and cards", GlossaryDialog],
  gaps: ["Gap-fill sheet", GapsDialog],
} as const;

/** What can be made of a text, where there is one: prints, files and exercises. */
export function ExportMenu({ document, name }: { document: TextDocument; name: string }) {
  const handout = handoutOf(document, name);
  const [title, Open] = DIALOGS[handout.open.value ?? "print"];
  if (!document.text.value.trim()) return null;
  return (
    <div class="buttons" role="group" aria-label="What to make of the text">
      {(Object.keys(DIALOGS) as OpenDialog[]).map((dialog) => (
        <Button
          key={dialog}
          label={DIALOGS[dialog][0]}
          aria-haspopup="dialog"
          onClick={() => (handout.open.value = dialog)}
        />
      ))}
      <Button
        label="Exercises"
        onClick={() => {
          takeText(document);
          show("exercises");
        }}
      />
      {handout.open.value && (
        <Dialog title={title} onClose={() => (handout.open.value = null)}>
          <Open handout={handout} />
        </Dialog>
      )}
    </div>
  );
}

const SIZES = [11, 12, 14, 16, 18, 24];

/** Print the text, or save it as a file. */
function PrintDialog({ handout }: { handout: Handout }) {
  const { withGlossary } = handout.settings.value;
  const { isOn, fault } = handout.saving;
  const lang = handout.document.lang.value;
  // Readings come with the check of the text.
  const isWaiting = isRead(lang) && handout.document.isChecking.value;
  return (
    <>
      <TitleAndSize handout={handout} />
      <Switch
        label="With the glossary"
        value={withGlossary}
        onChange={(withGlossary) => handout.change({ withGlossary })}
      />
      {canRead(lang) && <ReadingsSwitch lang={lang} />}
      {withGlossary && <p class="hint">{whatGlossaryHas(handout)}</p>}
      <FaultNotice fault={fault.value} />
      <div class="buttons">
        <Button label="Print" isMain disabled={isWaiting} onClick={() => print(<TextSheet handout={handout} />)} />
        <Button
          label={isOn.value ? "Saving…" : "Save for Word (.docx)"}
          disabled={isOn.value}
          onClick={() => void handout.saveDocx()}
        />
        <Button
          label="Save as text (.txt)"
          onClick={() => download(handout.title, "txt", handout.document.text.peek())}
        />
      </div>
    </>
  );
}

function whatGlossaryHas(handout: Handout): string {
  const count = handout.entries.value.length;
  if (!count) return 'There is no new word in this text. Choose the words under "Glossary and cards".';
  const { notes } = handout.settings.value;
  const explained = handout.entries.value.filter(({ key }) => notes[key]?.trim()).length;
  return `${count === 1 ? "One word" : `${count} words`}, ${explained} with a note. Notes are written under "Glossary and cards".`;
}

export function TitleAndSize({ handout }: { handout: Handout }) {
  const { title, size } = handout.settings.value;
  return (
    <div class="side-by-side">
      <TextField
        label="Title"
        maxLength={200}
        value={title}
        dir="auto"
        onChange={(title) => handout.change({ title })}
      />
      <Select
        label="Size of letters"
        value={`${size}`}
        options={SIZES.map((points) => [`${points}`, `${points} points`])}
        onChange={(points) => handout.change({ size: Number(points) })}
      />
    </div>
  );
}

const KINDS = {
  every: "Every so many words",
  new: "The new words",
  unlisted: "The words that are not in the list",
  band: "The words of a band",
} as const;

/** Print the text with gaps. */
function GapsDialog({ handout }: { handout: Handout }) {
  const { gaps, seed } = handout.settings.value;
  const { answers, bank } = handout.gapFill.value;
  const set = (members: Partial<Choice>): void => handout.change({ gaps: { ...gaps, ...members } });
  return (
    <>
      <TitleAndSize handout={handout} />
      <Radios label="Leave out" value={gaps.kind} options={KINDS} onChange={(kind) => set({ kind })} />
      {gaps.kind === "every" && (
        <NumberField
          label="One word of how many"
          value={gaps.nth}
          least={2}
          most={50}
          onChange={(nth) => set({ nth: nth ?? 7 })}
        />
      )}
      {gaps.kind === "band" && (
        <Select
          label="Rank"
          value={`${gaps.band}`}
          options={[...BANDS.keys(), BANDS.length].map((band) => [`${band}`, bandName(band)])}
          onChange={(band) => set({ band: Number(band) })}
        />
      )}
      <p role="status">
        {answers.length === 0
          ? "There is no such word in this text."
          : answers.length === 1
            ? "One gap."
            : `${answers.length} gaps.`}
      </p>
      {bank.length > 0 && (
        <p class="hint bank" lang={handout.lang} dir={handout.direction}>
          {bank.slice(0, 40).join(" · ")}
          {bank.length > 40 && " …"}
        </p>
      )}
      <div class="buttons">
        <Button label="Print" isMain disabled={!answers.length} onClick={() => print(<GapSheet handout={handout} />)} />
        <Button
          label="Shuffle the words"
          disabled={answers.length < 2}
          onClick={() => handout.change({ seed: seed + 1 })}
        />
      </div>
      <p class="hint">The answers are on a page of their own.</p>
    </>
  );
}

const separator = signal<Separator>("tab");

/** The words of a text that are explained, with a note for each. */
function GlossaryDialog({ handout }: { handout: Handout }) {
  const { withUnlisted } = handout.settings.value;
  const all = handout.candidates.value;
  const isEmpty = !handout.entries.value.length;
  return (
    <>
      <Switch
        label="Also the words that are not in the list"
        value={withUnlisted}
        onChange={(withUnlisted) => handout.change({ withUnlisted })}
      />
      {all.length ? (
        <Entries handout={handout} entries={all} />
      ) : (
        <p class="hint">This text has no new words, and none that you added.</p>
      )}
      <div class="buttons">
        <Button label="Print" isMain disabled={isEmpty} onClick={() => print(<GlossarySheet handout={handout} />)} />
        <Button label="Save as table (.csv)" disabled={isEmpty} onClick={() => saveCsv(handout)} />
        <Button label="Save cards for Anki" disabled={isEmpty} onClick={() => saveCards(handout)} />
        <Select
          label="divided by"
          class="inline-field"
          value={separator.value}
          options={[
            ["tab", "tabs"],
            ["comma", "commas"],
          ]}
          onChange={(chosen) => (separator.value = chosen as Separator)}
        />
      </div>
    </>
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
  download(`${handout.title} glossary`, "csv", csvFile([["word", "lemma", "rank", "sentence", "note"], ...rows]));
}

function saveCards(handout: Handout): void {
  const file = ankiFile(handout.entries.peek(), handout.settings.peek().notes, separator.peek(), handout.direction);
  // An ending that Anki's import takes for both separators.
  download(`${handout.title} cards`, "txt", file);
}
