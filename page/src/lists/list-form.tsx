import { DropZone, FileButton } from "../parts/file-field";
import { LanguageField } from "../parts/language-field";
import { myLists } from "../state/lists";
import { tagOf } from "../text/language";
import { form, read, saveForm, shown, takeFile } from "./edit";
import type { ReadWords } from "./read-words";

const SHOWN_FAULTS = 100;

/** A list that is made, or changed: `before` is its name until now. */
export function ListForm({ before }: { before: string | null }) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        saveForm(before);
      }}
    >
      <h2 tabIndex={-1}>{before === null ? "A new list" : `Change "${before}"`}</h2>
      <div class="side-by-side">
        <label class="field">
          <span>Name</span>
          <input
            type="text"
            required
            maxLength={100}
            value={form.name.value}
            placeholder="Class 4b, animals"
            onInput={(event) => (form.name.value = event.currentTarget.value)}
          />
        </label>
        <LanguageField lang={form.lang.value} onChange={(lang) => (form.lang.value = lang)} />
      </div>
      <DropZone onFile={(file) => void takeFile(file)}>
        <label class="field">
          <span>Words, one a line, or a table with a column "word"</span>
          <textarea
            rows={14}
            spellcheck={false}
            autocapitalize="off"
            lang={tagOf(form.lang.value)}
            value={form.text.value}
            placeholder={"cat\ndog\nwell-known"}
            onInput={(event) => (form.text.value = event.currentTarget.value)}
          />
        </label>
        <div class="buttons">
          <FileButton
            label="Choose a file (.txt, .csv)"
            accept=".txt,.csv,.tsv,text/plain,text/csv"
            onFile={(file) => void takeFile(file)}
          />
          <span class="hint">or drop one here. Words are used in their order: the first are the most frequent.</span>
        </div>
      </DropZone>
      <WhatWasRead read={read.value} />
      <div role="alert">{form.fault.value && <p class="notice is-fault">{form.fault.value}</p>}</div>
      <div class="buttons">
        <button type="submit" class="primary">
          Save
        </button>
        {(before !== null || myLists.value.length > 0) && (
          <button
            type="button"
            onClick={() => (shown.value = { kind: "list", name: before ?? myLists.value[0]!.name })}
          >
            Cancel
          </button>
        )}
      </div>
    </form>
  );
}

function WhatWasRead({ read: { words, faults, column } }: { read: ReadWords }) {
  return (
    <div class="what-was-read">
      <p role="status">
        {words.length > 0 && `${numWords(words.length)}. `}
        {column === null && "The first column of the table was read. "}
        {column && `The column "${column}" of the table was read. `}
        {faults.length === 1 && "One line was left out:"}
        {faults.length > 1 && `${faults.length.toLocaleString("en")} lines were left out:`}
      </p>
      {faults.length > 0 && (
        <ul class="line-faults" tabIndex={0} aria-label="Lines that were left out">
          {faults.slice(0, SHOWN_FAULTS).map(({ line, text, reason }, index) => (
            <li key={index}>
              Line {line}: {text && <bdi>{text.length > 40 ? `${text.slice(0, 40)}…` : text}</bdi>}
              {text && ", "}
              {reason}
            </li>
          ))}
          {faults.length > SHOWN_FAULTS && <li>and {faults.length - SHOWN_FAULTS} more</li>}
        </ul>
      )}
    </div>
  );
}

export function numWords(count: number): string {
  return count === 1 ? "1 word" : `${count.toLocaleString("en")} words`;
}
