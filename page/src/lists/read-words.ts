import { type Unspaced, unspacedOf } from "../text/language";
import { readCell } from "./csv";

/** Characters of a word, and words of a list, that the service takes. */
export const MAX_WORD_CHARS = 100;
export const MAX_LIST_WORDS = 50_000;

/** A line of which no word was taken. */
export interface LineFault {
  /** From 1. */
  line: number;
  text: string;
  reason: string;
}

export interface ReadWords {
  words: string[];
  faults: LineFault[];
  /** The column that was read, where the text is a table: its name, or null for the first of one without names. */
  column: string | null | undefined;
}

interface Row {
  line: number;
  cells: string[];
}

const COLUMNS = ["word", "words", "headword", "lemma", "form"];
/** What tables of Chinese, Japanese and Thai words name that column. */
const OWN_COLUMNS: Readonly<Record<Unspaced, readonly string[]>> = {
  zh: ["simplified", "hanzi", "chinese", "简体", "词语", "生词", "汉字", "单词"],
  "zh-Hant": ["traditional", "hanzi", "chinese", "繁體", "詞語", "生詞", "漢字", "單詞"],
  ja: ["kanji", "expression", "japanese", "vocabulary", "単語", "言葉", "漢字"],
  th: ["thai", "คำ", "คำศัพท์"],
};
const BULLET = /^(?:[-–—•*·]|\d+[.)])\s+/u;
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}]/u;
/** A zero-width joiner and non-joiner are letters' business in Persian and Hindi. */
const JOINERS = /[\u200c\u200d]/g;

/**
 * Read a list of words: one a line, or a table (CSV) with the words in the column named "word", or else in the first.
 *
 * Tables of Chinese, Japanese and Thai words (`lang`) may name it in other ways: "Simplified". A single line may have many words, divided by commas. What is no word is told with its line; the rest is taken.
 */
export function readWords(text: string, lang = ""): ReadWords {
  const unspaced = unspacedOf(lang);
  const taken = (rows: readonly Row[], column: number) => takenOf(rows, column, unspaced !== null);
  const bare = text.replace(/^\ufeff/, "");
  const separator = separatorOf(bare);
  const rows = separator ? rowsOf(bare, separator) : linesOf(bare);
  if (!separator) return { ...taken(rows, 0), column: undefined };
  if (rows.length === 1)
    return {
      ...taken(
        rows[0]!.cells.map((cell) => ({ line: 1, cells: [cell] })),
        0,
      ),
      column: undefined,
    };
  const names = rows[0]?.cells.map((cell) => cell.trim().toLowerCase()) ?? [];
  const name = [...(unspaced ? OWN_COLUMNS[unspaced] : []), ...COLUMNS].find((name) => names.includes(name));
  if (name === undefined) return { ...taken(rows, 0), column: null };
  return { ...taken(rows.slice(1), names.indexOf(name)), column: name };
}

function takenOf(rows: readonly Row[], column: number, isUnspaced: boolean): { words: string[]; faults: LineFault[] } {
  const lines = new Map<string, number>();
  const faults: LineFault[] = [];
  for (const { line, cells } of rows) {
    const text = cells[column] ?? "";
    const word = text.trim().replace(BULLET, "").normalize("NFC").replace(/\s+/gu, " ");
    if (!word && cells.every((cell) => !cell.trim())) continue;
    const reason = isUnspaced && word.includes(" ") ? "words of this language have no blank" : faultOf(word, lines);
    if (reason) faults.push({ line, text: text.trim(), reason });
    else lines.set(word, line);
  }
  return { words: [...lines.keys()], faults };
}

function faultOf(word: string, lines: ReadonlyMap<string, number>): string | null {
  if (!word) return "there is no word in this line";
  if (word.length > MAX_WORD_CHARS) return `longer than ${MAX_WORD_CHARS} characters`;
  if (INVISIBLE.test(word.replace(JOINERS, ""))) return "it has characters that cannot be seen";
  if (!/\p{L}/u.test(word)) return "it has no letters";
  const before = lines.get(word);
  if (before !== undefined) return `it is in line ${before} already`;
  if (lines.size >= MAX_LIST_WORDS) return `a list has at most ${MAX_LIST_WORDS.toLocaleString("en")} words`;
  return null;
}

function linesOf(text: string): Row[] {
  return text.split(/\r\n|\n|\r/).map((line, index) => ({ line: index + 1, cells: [line] }));
}

/** Return what divides the cells of a table; null for words one a line. */
function separatorOf(text: string): string | null {
  const first = /[^\r\n]*/.exec(text.trimStart())![0];
  // A table of one column, as this page saves it.
  if (first.trim().toLowerCase() === COLUMNS[0] && text.trim() !== first.trim()) return ",";
  return ["\t", ";", ",", "，", "、"].find((each) => first.includes(each)) ?? null;
}

/** Return the rows of a CSV (RFC 4180), each with the line that it begins in. */
export function rowsOf(text: string, separator: string): Row[] {
  const rows: Row[] = [];
  let [line, start, cell, isQuoted] = [1, 1, "", false];
  let cells: string[] = [];
  const end = (): void => {
    rows.push({ line: start, cells: [...cells, cell].map(readCell) });
    [cells, cell, start] = [[], "", line];
  };
  for (let place = 0; place < text.length; place += 1) {
    const char = text[place]!;
    const isEnd = char === "\n" || (char === "\r" && text[place + 1] !== "\n");
    if (isEnd) line += 1;
    if (isQuoted) {
      if (char !== '"') cell += char;
      else if (text[place + 1] === '"') {
        cell += '"';
        place += 1;
      } else isQuoted = false;
    } else if (char === '"' && !cell.trim()) [cell, isQuoted] = ["", true];
    else if (char === separator) [cells, cell] = [[...cells, cell], ""];
    else if (isEnd) end();
    else if (char !== "\r") cell += char;
  }
  if (cell || cells.length) end();
  return rows;
}
