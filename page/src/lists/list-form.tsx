import type { LeftOutRow, ReadVocabulary } from "../api/types";
import { csvFile, download } from "../exports/files";
import { Button, DropZone, FileButton, Select, submitting, Switch, TextField } from "../parts/controls";
import { LanguageField } from "../parts/list-fields";
import { FaultNotice } from "../parts/notice";
import { myLists, numWords } from "../state/lists";
import { tagOf } from "../text/language";
import { canBePossessive, entries, form, read, reading, saveForm, shown, take, words } from "./edit";

/** A list that is made, or changed: `before` is its name until now. */
export function ListForm({ before }: { before: string | null }) {
  const { name, lang, file, text, options } = form;
  return (
    <form onSubmit={submitting(() => saveForm(before))}>
      <h2 tabIndex={-1}>{before === null ? "A new list" : `Change "${before}"`}</h2>
      <div class="side-by-side">
        <TextField
          label="Name"
          required
          maxLength={100}
          value={name.value}
          placeholder="Class 4b, animals"
          onChange={(typed) => (name.value = typed)}
        />
        <LanguageField lang={lang.value} onChange={(chosen) => take(file.peek(), text.peek(), chosen)} />
      </div>
      <DropZone onFile={(dropped) => take(dropped)}>
        {file.value ? (
          <p class="from-file">
            From the file <bdi>{file.value.name}</bdi> <Button label="Type words instead" onClick={() => take(null)} />
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
        value={options.value.unit === "lemma"}
        onChange={(isOn) => (options.value = { ...options.peek(), unit: isOn ? "lemma" : null })}
      />
      {canBePossessive.value && (
        <Switch
          label="Each word also with 's: the dog's"
          value={!!options.value.possessive}
          onChange={(possessive) => (options.value = { ...options.peek(), possessive })}
        />
      )}
      <FaultNotice fault={reading.fault.value} />
      <div class="buttons">
        <Button label="Save" type="submit" isMain />
        {(before !== null || myLists.value.length > 0) && (
          <Button
            label="Cancel"
            onClick={() => (shown.value = { kind: "list", name: before ?? myLists.value[0]!.name })}
          />
        )}
      </div>
    </form>
  );
}

/** Entries, and rows left out, that are drawn. */
const SHOWN_ENTRIES = 12;
const SHOWN_ROWS = 100;

/** What the service understood of a file, or of words that were typed, before they are used. */
function WhatWasRead() {
  const found = reading.fault.value ? null : read.value;
  return (
    <section aria-label="What was read" aria-busy={reading.isPending.value}>
      <p role="status">{reading.isPending.value ? "Reading the words…" : found && summaryOf(found)}</p>
      {found && (
        <>
          {found.levels.length > 0 && (
            <Select
              label="Words up to the level"
              class="field is-short"
              value={form.level.value}
              options={[["", "All words"], ...found.levels.map((level) => [level, level] as const)]}
              onChange={(level) => (form.level.value = level)}
            />
          )}
          <FirstEntries />
          {found.num_left_out > 0 && <LeftOut rows={found.left_out} count={found.num_left_out} />}
        </>
      )}
    </section>
  );
}

function summaryOf({ num_left_out: count, columns, shapes, encoding }: ReadVocabulary): string {
  const named = Object.entries(columns).map(
    ([role, name]) => `${role} from ${/^\d+$/.test(name) ? `no. ${name}` : `"${name}"`}`,
  );
  const facts = { Columns: named.join(", "), Shapes: shapes.join(", "), Encoding: form.file.value && encoding };
  return [
    `${numWords(words.value.length)}.`,
    count && (count === 1 ? "One row was left out." : `${count.toLocaleString("en")} rows were left out.`),
    ...Object.entries(facts).map(([name, value]) => value && `${name}: ${value}.`),
  ]
    .filter(Boolean)
    .join(" ");
}

function FirstEntries() {
  return (
    <>
      <h3>The first words</h3>
      <ol class="list-words" aria-label="The first words" lang={tagOf(form.lang.value)}>
        {entries.value.slice(0, SHOWN_ENTRIES).map(({ word, forms, level }) => (
          <li key={word}>
            <bdi>
              <b>{word}</b> {forms.join(", ")}
            </bdi>{" "}
            <span class="hint">{level}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function LeftOut({ rows, count }: { rows: readonly LeftOutRow[]; count: number }) {
  const cells = rows.map(({ line, text, reason, sheet }) => [String(line), text, reason, sheet ?? ""]);
  const name = `${form.name.value} left out`.trim();
  return (
    <>
      <h3>Rows that were left out</h3>
      <ul class="left-out" tabIndex={0} aria-label="Rows that were left out">
        {rows.slice(0, SHOWN_ROWS).map(({ line, text, reason, sheet }, index) => (
          <li key={index}>
            {sheet === null ? "Line" : `${sheet}, line`} {line}:{" "}
            {text && <bdi>{text.length > 40 ? `${text.slice(0, 40)}…` : text}</bdi>}
            {text && ", "}
            {reason}
          </li>
        ))}
        {count > SHOWN_ROWS && <li>and {(count - SHOWN_ROWS).toLocaleString("en")} more</li>}
      </ul>
      <Button
        label="Download these rows (.csv)"
        onClick={() => download(name, "csv", csvFile([["line", "text", "reason", "sheet"], ...cells]))}
      />
    </>
  );
}
