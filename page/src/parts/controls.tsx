import { type Signal, useSignal } from "@preact/signals";
import type { ButtonHTMLAttributes, ComponentChildren, PartialInputHTMLAttributes } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { wordsTyped } from "../state/brief";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { label: string; isMain?: boolean };

/** Return what a form does instead of leading to another page. */
export function submitting(act: () => unknown): (event: Event) => void {
  return (event) => {
    event.preventDefault();
    act();
  };
}

/** A button that sends no form. */
export function Button({ label, isMain = false, ...others }: ButtonProps) {
  return (
    <button type="button" {...(isMain && { class: "primary" })} {...others}>
      {label}
    </button>
  );
}

/** Ends the model's work. Takes the focus of a button that went for it; `next` leads whoever is on it when it goes on. */
export function StopButton({ onStop, next }: { onStop: () => void; next: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const own = button.current!;
    if (document.activeElement === document.body) own.focus({ preventScroll: true });
    return () => {
      if (own.matches(":focus-visible")) next();
    };
  }, []);
  return <Button ref={button} label="Stop" onClick={onStop} />;
}

interface Choosing<Value> {
  label: string;
  value: Value;
  onChange: (value: Value) => void;
}

export function Switch({ label, value, onChange }: Choosing<boolean>) {
  return (
    <label class="switch">
      <input type="checkbox" checked={value} onChange={(event) => onChange(event.currentTarget.checked)} />
      {label}
    </label>
  );
}

/** One of a few: `options` are values with what they are called. */
export function Radios<Value extends string>({
  label,
  value,
  options,
  onChange,
}: Choosing<Value> & { options: Readonly<Record<Value, string>> }) {
  const name = useId();
  return (
    <fieldset class="choices">
      <legend>{label}</legend>
      {(Object.keys(options) as Value[]).map((each) => (
        <label key={each}>
          <input type="radio" name={name} checked={each === value} onChange={() => onChange(each)} />
          {options[each]}
        </label>
      ))}
    </fieldset>
  );
}

/** One of many: `options` are pairs of a value and what it is called. */
export function Select({
  label,
  value,
  options,
  onChange,
  class: kind = "field",
}: Choosing<string> & { options: readonly (readonly [string, string])[]; class?: string }) {
  return (
    <label class={kind}>
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([each, name]) => (
          <option key={each} value={each}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

type TextProps = Omit<PartialInputHTMLAttributes<HTMLInputElement>, "label" | "onChange" | "role" | "type"> & {
  label: string;
  onChange?: (value: string) => void;
};

export function TextField({ label, onChange, ...others }: TextProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input type="text" onInput={(event) => onChange?.(event.currentTarget.value)} {...others} />
    </label>
  );
}

interface NumberProps extends Choosing<number | null> {
  least: number;
  most: number;
  isOptional?: boolean;
}

export function NumberField({ label, value, least, most, isOptional = false, onChange }: NumberProps) {
  return (
    <label class="field is-short">
      <span>{label}</span>
      <input
        type="number"
        min={least}
        max={most}
        required={!isOptional}
        value={value ?? ""}
        onInput={(event) => {
          const given = event.currentTarget.valueAsNumber;
          if (given >= least && given <= most) onChange(Math.round(given));
          else if (isOptional && event.currentTarget.value === "") onChange(null);
        }}
      />
    </label>
  );
}

/** A field for words, divided by commas. */
export function WordsField({ value, onChange, ...others }: Choosing<string[]> & { placeholder?: string }) {
  const typed = useSignal(value.join(", "));
  useEffect(() => {
    // Changed elsewhere: by the popover of a word, say.
    if (wordsTyped(typed.peek()).join() !== value.join()) typed.value = value.join(", ");
  }, [value]);
  function type(text: string): void {
    typed.value = text;
    onChange(wordsTyped(text));
  }
  return <TextField {...others} value={typed.value} autocapitalize="off" onChange={type} />;
}

/** A button that lets a file be chosen. `accept` has endings of names, as browsers take them: ".txt,.csv". */
export function FileButton({ label, accept, onFile }: { label: string; accept: string; onFile: (file: File) => void }) {
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

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** A dialog before the page; the browser keeps the focus in it and gives it back. Escape closes it. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={heading} onClose={onClose}>
      <div class="dialog-head">
        <h2 id={heading}>{title}</h2>
        <Button label="Close" onClick={() => dialog.current?.close()} />
      </div>
      {children}
    </dialog>
  );
}
