import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Dialog } from "../parts/dialog";
import { brief } from "../state/brief";
import { linkFault, linkOf, replaced, undoLink } from "../state/link";

const link = signal("");
const isCopied = signal(false);

/** A button for a link to the settings of the brief. */
export function LinkButton() {
  const isOpen = useSignal(false);
  return (
    <>
      <button type="button" aria-haspopup="dialog" onClick={() => (isOpen.value = true)}>
        Link to these settings
      </button>
      {isOpen.value && <LinkDialog onClose={() => (isOpen.value = false)} />}
    </>
  );
}

function LinkDialog({ onClose }: { onClose: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    isCopied.value = false;
    void linkOf(brief.value).then((made) => (link.value = made));
  }, [brief.value]);
  return (
    <Dialog title="Link to these settings" onClose={onClose}>
      <label class="field">
        <span>Whoever opens it has your list, words and wishes, and writes a text of their own</span>
        <input
          ref={field}
          type="text"
          readOnly
          value={link.value}
          onFocus={(event) => event.currentTarget.select()}
          // It stands in a form: Enter is not to write a text.
          onKeyDown={(event) => event.key === "Enter" && event.preventDefault()}
        />
      </label>
      <div class="buttons">
        <button type="button" class="primary" onClick={() => void copy(field.current!)}>
          Copy
        </button>
        <span role="status">{isCopied.value && "Copied."}</span>
      </div>
      <p class="hint">
        Neither your text nor the key is in it: they need a key of this service.
        {brief.value.myList && ` Your list "${brief.value.myList}" is not either: give them its file.`}
      </p>
    </Dialog>
  );
}

async function copy(field: HTMLInputElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(field.value);
    isCopied.value = true;
  } catch {
    // Browsers allow it to pages over HTTPS only; copying what is selected they allow to all.
    field.select();
    isCopied.value = document.execCommand("copy");
  }
}

/** Says that the page was opened with a link, or that the link is damaged. */
export function LinkNotice() {
  return (
    <div role="status">
      {linkFault.value && <p class="notice is-fault">{linkFault.value}</p>}
      {replaced.value && (
        <p class="notice">
          The settings of the link are in the form now. Your own ones were put aside.{" "}
          <button type="button" onClick={undoLink}>
            Back to mine
          </button>{" "}
          <button type="button" onClick={() => (replaced.value = null)}>
            Keep these
          </button>
        </p>
      )}
    </div>
  );
}
