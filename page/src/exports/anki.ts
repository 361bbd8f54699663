import type { GlossaryEntry } from "./glossary";

export const SEPARATORS = { tab: "\t", comma: "," } as const;
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
