import { Dialog } from "../parts/dialog";
import { FaultNotice } from "../parts/notice";
import { Switch } from "../parts/fields";
import { canRead, isRead } from "../state/readings";
import { ReadingsSwitch } from "../text/readings";
import type { Handout } from "./handout";
import { download, fileName } from "./download";
import { print, TextSheet } from "./sheets";

const SIZES = [11, 12, 14, 16, 18, 24];

/** Print the text, or save it as a file. */
export function PrintDialog({ handout }: { handout: Handout }) {
  const { withGlossary } = handout.settings.value;
  const lang = handout.document.lang.value;
  // Readings come with the check of the text.
  const isWaiting = isRead(lang) && handout.document.isChecking.value;
  return (
    <Dialog title="Print or save" onClose={() => (handout.open.value = null)}>
      <TitleAndSize handout={handout} />
      <Switch
        label="With the glossary"
        isOn={withGlossary}
        onChange={(withGlossary) => handout.change({ withGlossary })}
      />
      {canRead(lang) && <ReadingsSwitch lang={lang} />}
      {withGlossary && <p class="hint">{whatGlossaryHas(handout)}</p>}
      <FaultNotice fault={handout.fault.value} />
      <div class="buttons">
        <button
          type="button"
          class="primary"
          disabled={isWaiting}
          onClick={() => print(<TextSheet handout={handout} />)}
        >
          Print
        </button>
        <button type="button" disabled={handout.isSaving.value} onClick={() => void handout.saveDocx()}>
          {handout.isSaving.value ? "Saving…" : "Save for Word (.docx)"}
        </button>
        <button type="button" onClick={() => download(fileName(handout.title, "txt"), handout.document.text.peek())}>
          Save as text (.txt)
        </button>
      </div>
    </Dialog>
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
      <label class="field">
        <span>Title</span>
        <input
          type="text"
          maxLength={200}
          value={title}
          dir="auto"
          onInput={(event) => handout.change({ title: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        <span>Size of letters</span>
        <select value={size} onChange={(event) => handout.change({ size: Number(event.currentTarget.value) })}>
          {SIZES.map((points) => (
            <option key={points} value={points}>
              {points} points
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
