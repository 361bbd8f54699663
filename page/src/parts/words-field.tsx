import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { wordsTyped } from "../state/brief";

interface Props {
  label: string;
  hint?: string;
  words: readonly string[];
  onChange: (words: string[]) => void;
}

/** A field for words, divided by commas. */
export function WordsField({ label, hint, words, onChange }: Props) {
  const typed = useSignal(words.join(", "));
  useEffect(() => {
    // Changed elsewhere: by the popover of a word, say.
    if (wordsTyped(typed.peek()).join() !== words.join()) typed.value = words.join(", ");
  }, [words]);
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        value={typed.value}
        placeholder={hint}
        autocapitalize="off"
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          onChange(wordsTyped(typed.value));
        }}
      />
    </label>
  );
}
