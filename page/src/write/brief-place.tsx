import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { BriefForm } from "./brief-form";
import { isWorking } from "./generate";

const narrow = matchMedia("(max-width: 40rem)");
const isPhone = signal(narrow.matches);
narrow.addEventListener("change", () => (isPhone.value = narrow.matches));

/** The brief: beside the text, or on a phone in a sheet at the bottom, which a button opens. */
export function BriefPlace() {
  return isPhone.value ? <Sheet /> : <BriefForm />;
}

function Sheet() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(
    () =>
      // What is written is to be seen.
      effect(() => {
        if (isWorking.value) dialog.current?.close();
      }),
    [],
  );
  return (
    <>
      <button
        type="button"
        class="primary open-sheet"
        aria-haspopup="dialog"
        onClick={() => dialog.current?.showModal()}
      >
        Brief
      </button>
      <dialog
        ref={dialog}
        class="sheet"
        aria-label="Brief"
        onClick={(event) => {
          // The dialog itself is under the pointer only where its contents are not: on the backdrop.
          if (event.target === event.currentTarget) event.currentTarget.close();
        }}
      >
        <div class="sheet-inside">
          <header>
            <h2>Brief</h2>
            <button type="button" onClick={() => dialog.current?.close()}>
              Done
            </button>
          </header>
          <BriefForm />
        </div>
      </dialog>
    </>
  );
}
