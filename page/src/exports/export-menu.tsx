import { takeText } from "../exercises/making";
import { show } from "../state/tab";
import type { TextDocument } from "../text/document";
import { GapsDialog } from "./gaps-dialog";
import { GlossaryDialog } from "./glossary-dialog";
import { type Dialog, handoutOf } from "./handout";
import { PrintDialog } from "./print-dialog";

const BUTTONS: readonly { dialog: Dialog; label: string }[] = [
  { dialog: "print", label: "Print or save" },
  { dialog: "glossary", label: "Glossary and cards" },
  { dialog: "gaps", label: "Gap-fill sheet" },
];

const DIALOGS = { print: PrintDialog, glossary: GlossaryDialog, gaps: GapsDialog } as const;

/** What can be made of a text, where there is one: prints, files and exercises. */
export function ExportMenu({ document, name }: { document: TextDocument; name: string }) {
  const handout = handoutOf(document, name);
  const Open = handout.open.value && DIALOGS[handout.open.value];
  if (!document.text.value.trim()) return null;
  return (
    <div class="buttons" role="group" aria-label="What to make of the text">
      {BUTTONS.map(({ dialog, label }) => (
        <button key={dialog} type="button" aria-haspopup="dialog" onClick={() => (handout.open.value = dialog)}>
          {label}
        </button>
      ))}
      <button
        type="button"
        onClick={() => {
          takeText(document);
          show("exercises");
        }}
      >
        Exercises
      </button>
      {Open && <Open handout={handout} />}
    </div>
  );
}
