import type { LeftOutRow, ReadVocabulary } from "../api/types";
import { download, fileName } from "../exports/download";
import { numWords } from "../state/lists";
import { tagOf } from "../text/language";
import { csvFile } from "./csv";
import { entries, form, read, reading, words } from "./edit";

/** Entries, and rows left out, that are drawn. */
const SHOWN_ENTRIES = 12;
const SHOWN_ROWS = 100;

/** What the service understood of a file, or of words that were typed, before they are used. */
export function WhatWasRead() {
  const found = reading.fault.value ? null : read.value;
  return (
    <section aria-label="What was read" aria-busy={reading.isPending.value}>
      <p role="status">{reading.isPending.value ? "Reading the words…" : found && summaryOf(found)}</p>
      {found && (
        <>
          {found.levels.length > 0 && <LevelField levels={found.levels} />}
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

function LevelField({ levels }: { levels: readonly string[] }) {
  return (
    <label class="field is-short">
      <span>Words up to the level</span>
      <select value={form.level.value} onChange={(event) => (form.level.value = event.currentTarget.value)}>
        <option value="">All words</option>
        {levels.map((level) => (
          <option key={level} value={level}>
            {level}
          </option>
        ))}
      </select>
    </label>
  );
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
      <button
        type="button"
        onClick={() => download(fileName(name, "csv"), csvFile(["line", "text", "reason", "sheet"], cells), "text/csv")}
      >
        Download these rows (.csv)
      </button>
    </>
  );
}
