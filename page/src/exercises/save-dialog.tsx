import { TitleAndSize } from "../exports/print-dialog";
import { print } from "../exports/sheets";
import { Dialog } from "../parts/dialog";
import { Switch } from "../parts/fields";
import { FaultNotice } from "../parts/notice";
import { exerciseSheet, exercisesHandout } from "./exercise-sheet";
import { made } from "./making";

const FILES = [
  { format: "docx", label: "Save for Word (.docx)", ending: "docx" },
  { format: "gift", label: "Save for Moodle (.gift)", ending: "gift" },
  { format: "qti", label: "Save for other platforms (QTI, .zip)", ending: "zip" },
  { format: "tsv", label: "Save cards for Anki (.tsv)", ending: "tsv" },
] as const;

/** Print the exercises, or save them as a file that the service makes. */
export function SaveDialog() {
  const handout = exercisesHandout();
  const { withText } = handout.settings.value;
  function save(format: string, ending: string): void {
    const { exercises, text } = made.peek()!;
    const ofWord = { font_size: handout.settings.peek().size, ...(withText && { text }) };
    void handout.save("/v1/documents/worksheet", ending, { format, exercises, ...(format === "docx" && ofWord) });
  }
  return (
    <Dialog title="Print or save" onClose={() => (handout.open.value = null)}>
      <TitleAndSize handout={handout} />
      <Switch label="With the text" isOn={withText} onChange={(withText) => handout.change({ withText })} />
      <FaultNotice fault={handout.fault.value} />
      <div class="buttons">
        <button type="button" class="primary" onClick={() => print(exerciseSheet()!)}>
          Print
        </button>
        {FILES.map(({ format, label, ending }) => (
          <button
            key={format}
            type="button"
            aria-disabled={handout.isSaving.value}
            onClick={() => !handout.isSaving.peek() && save(format, ending)}
          >
            {label}
          </button>
        ))}
      </div>
      <p class="hint">
        The answers are on a page of their own. Moodle and other platforms get no dictation; cards are of gaps and
        meanings.
      </p>
    </Dialog>
  );
}
