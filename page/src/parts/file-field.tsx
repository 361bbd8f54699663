import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

interface Props {
  label: string;
  /** Endings of names, as browsers take them: ".txt,.csv". */
  accept: string;
  onFile: (file: File) => void;
}

/** A button that lets a file be chosen. */
export function FileButton({ label, accept, onFile }: Props) {
  return (
    <label class="file-button">
      {label}
      <input
        type="file"
        accept={accept}
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? [];
          if (file) onFile(file);
          // The same file can be chosen again.
          event.currentTarget.value = "";
        }}
      />
    </label>
  );
}

/** A region that takes a file that is dropped on it. */
export function DropZone({ onFile, children }: { onFile: (file: File) => void; children: ComponentChildren }) {
  const isOver = useSignal(false);
  return (
    <div
      class={`drop-zone ${isOver.value ? "is-over" : ""}`}
      onDragOver={(event) => takeFiles(event, isOver)}
      onDragLeave={() => (isOver.value = false)}
      onDrop={(event) => {
        isOver.value = false;
        const [file] = event.dataTransfer?.files ?? [];
        if (!file) return;
        event.preventDefault();
        onFile(file);
      }}
    >
      {children}
    </div>
  );
}

/** Text that is dragged goes to the field below the pointer. */
function takeFiles(event: DragEvent, isOver: Signal<boolean>): void {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  isOver.value = true;
}
