import type { GlossaryEntry } from "./contents";

/** Save a file under a title where the browser saves files. */
export function download(title: string, ending: string, content: string | Blob): void {
  const type = `text/${ending === "csv" ? "csv" : "plain"};charset=utf-8`;
  const blob = typeof content === "string" ? new Blob([content], { type }) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = fileName(title, ending);
  link.click();
  // The browser reads the file after the click.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Return a title as the name of a file on any system. */
function fileName(title: string, ending: string): string {
  const name = title
    .replace(/[\p{Cc}\p{Cf}"*/:<>?\\|]+/gu, " ")
    .replace(/\s+/gu, " ")
    .trim()
    .slice(0, 80);
  return `${name.replace(/[. ]+$/, "") || "text"}.${ending}`;
}

/** How a cell begins that a spreadsheet computes, after any number of the marks that keep it from it. */
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/;

/**
 * Return a CSV file. The mark at its beginning tells Excel that it is UTF-8; a ' stands before
 * a text that would be a formula (https://owasp.org/www-community/attacks/CSV_Injection); the service takes it away.
 */
export function csvFile(rows: readonly (readonly string[])[]): string {
  return `\ufeff${rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("")}`;
}

function csvCell(text: string): string {
  const cell = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

const SEPARATORS = { tab: "\t", comma: "," } as const;
export type Separator = keyof typeof SEPARATORS;

/** Return cards as a file that Anki's import takes: word; the sentence with the word in bold; note. */
export function ankiFile(
  entries: readonly GlossaryEntry[],
  notes: Readonly<Record<string, string>>,
  separator: Separator,
  direction: "ltr" | "rtl",
): string {
  const written = (html: string): string => (direction === "rtl" ? `<div dir="rtl">${html}</div>` : html);
  const rows = entries.map(({ key, word, sentence, start, end }) => [
    written(escaped(word)),
    written(
      `${escaped(sentence.slice(0, start))}<b>${escaped(sentence.slice(start, end))}</b>${escaped(sentence.slice(end))}`,
    ),
    // Notes are in the language of the class.
    escaped(notes[key] ?? ""),
  ]);
  const between = SEPARATORS[separator];
  const names = ["Word", "Sentence", "Note"].join(between);
  const head = [`#separator:${separator}`, "#html:true", `#columns:${names}`];
  return `${[...head, ...rows.map((row) => row.map(quoted).join(between))].join("\n")}\n`;
}

/**
 * Return a cell in quotation marks: one at its beginning would take up the rows after it, and a line with # is no card.
 * No spreadsheet computes it.
 */
function quoted(cell: string): string {
  return `"${cell.replace(/^[=+\-@\t＝＋－＠]/, reference).replaceAll('"', '""')}"`;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>" };

/** Return a text as HTML; Anki's own [sound:…], [latex] and {{c1::…}} are text in it. */
function escaped(text: string): string {
  return text.replace(/[&<>\n[{]/g, (char) => ENTITIES[char] ?? reference(char));
}

function reference(char: string): string {
  return `&#${char.charCodeAt(0)};`;
}
