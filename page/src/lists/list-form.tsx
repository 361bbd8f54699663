import { Switch } from "../parts/fields";
import { DropZone, FileButton } from "../parts/file-field";
import { LanguageField } from "../parts/language-field";
import { FaultNotice } from "../parts/notice";
import { myLists } from "../state/lists";
import { tagOf } from "../text/language";
import { canBePossessive, form, reading, saveForm, shown, take } from "./edit";
import { WhatWasRead } from "./what-was-read";

/** A list that is made, or changed: `before` is its name until now. */
export function ListForm({ before }: { before: string | null }) {
  const { name, lang, file, text, options } = form;
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
            value={name.value}
            placeholder="Class 4b, animals"
            onInput={(event) => (name.value = event.currentTarget.value)}
          />
        </label>
        <LanguageField lang={lang.value} onChange={(chosen) => take(file.peek(), text.peek(), chosen)} />
      </div>
      <DropZone onFile={(dropped) => take(dropped)}>
        {file.value ? (
          <p class="from-file">
            From the file <bdi>{file.value.name}</bdi>{" "}
            <button type="button" onClick={() => take(null)}>
              Type words instead
            </button>
          </p>
        ) : (
          <label class="field">
            <span>Words, one a line, or a table from a spreadsheet</span>
            <textarea
              rows={14}
              spellcheck={false}
              autocapitalize="off"
              lang={tagOf(lang.value)}
              value={text.value}
              placeholder={"cat\ndog\nwell-known"}
              onInput={(event) => take(null, event.currentTarget.value)}
            />
          </label>
        )}
        <div class="buttons">
          <FileButton
            label="Choose a file (.xlsx, .csv, .txt)"
            accept=".xlsx,.csv,.tsv,.txt,text/plain,text/csv"
            onFile={(chosen) => take(chosen)}
          />
          <span class="hint">or drop one here. Words are used in their order: the first are the most frequent.</span>
        </div>
      </DropZone>
      <WhatWasRead />
      <Switch
        label="Each word with all its forms: go, goes, went"
        isOn={options.value.unit === "lemma"}
        onChange={(isOn) => (options.value = { ...options.peek(), unit: isOn ? "lemma" : undefined })}
      />
      {canBePossessive.value && (
        <Switch
          label="Each word also with 's: the dog's"
          isOn={!!options.value.possessive}
          onChange={(possessive) => (options.value = { ...options.peek(), possessive })}
        />
      )}
      <FaultNotice fault={reading.fault.value} />
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
