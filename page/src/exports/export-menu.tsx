import type { TextDocument } from "../text/document";
import { GapsDialog } from "./gaps-dialog";
import { GlossaryDialog } from "./glossary-dialog";
import { type Dialog, handoutOf } from "./handout";
import { LinkDialog } from "./link-dialog";
import { PrintDialog } from "./print-dialog";

const BUTTONS: readonly { dialog: Dialog; label: string; needsText: boolean }[] = [
  { dialog: "print", label: "Print or save", needsText: true },
  { dialog: "glossary", label: "Glossary and cards", needsText: true },
  { dialog: "gaps", label: "Gap-fill sheet", needsText: true },
  { dialog: "link", label: "Link to these settings", needsText: false },
];

const DIALOGS = { print: PrintDialog, glossary: GlossaryDialog, gaps: GapsDialog, link: LinkDialog } as const;

/** What can be made of a text: prints, files, and a link to the settings. */
export function ExportMenu({ document, name }: { document: TextDocument; name: string }) {
  const handout = handoutOf(document, name);
  const Open = handout.open.value && DIALOGS[handout.open.value];
  return (
    <div class="export-menu" role="group" aria-label="Print, save and share">
      {BUTTONS.map(({ dialog, label, needsText }) => (
        <button
          key={dialog}
          type="button"
          aria-haspopup="dialog"
          disabled={needsText && !document.text.value.trim()}
          onClick={() => (handout.open.value = dialog)}
        >
          {label}
        </button>
      ))}
      {Open && <Open handout={handout} />}
    </div>
  );
}
