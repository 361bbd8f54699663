import type { Range } from "./words";

// A mark that ends a sentence, with what closes it. Devanagari, Urdu and Arabic have marks of their own.
const END = /[.!?…。।؟۔]+["'”’»)\]]*(?=\s|$)/gu;

const WIDE_QUOTES = "」』》）”’";
const WIDE_LETTER = "\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
/** In Chinese and Japanese no blank follows; where a comma does, or と after a quotation, the sentence goes on. */
const WIDE_END = new RegExp(
  `(?:…*[。！？][。！？…]*|…+(?=[${WIDE_QUOTES}]*[${WIDE_LETTER}「『《（“‘]))` +
    `(?:[${WIDE_QUOTES}]+(?![と，、；：])|(?![${WIDE_QUOTES}，、；：]))`,
  "gu",
);

/** Return the sentences of a text, without the blanks between them. A line break ends one too. */
export function sentencesOf(text: string): Range[] {
  const made: Range[] = [];
  let start = 0;
  for (const line of text.split("\n")) {
    addSentences(line, start, made);
    start += line.length + 1;
  }
  return made;
}

function addSentences(line: string, offset: number, made: Range[]): void {
  let from = 0;
  const add = (to: number): void => {
    const part = line.slice(from, to);
    const trimmed = part.trim();
    const start = offset + from + part.indexOf(trimmed);
    if (trimmed) made.push({ start, end: start + trimmed.length });
    from = to;
  };
  const ends = [...line.matchAll(WIDE_END)].map(endOf);
  for (const end of [...line.matchAll(END)].map(endOf)) {
    // "What?" she said.
    if (!/^\s+\p{Ll}/u.test(line.slice(end))) ends.push(end);
  }
  ends.sort((one, other) => one - other).forEach(add);
  add(line.length);
}

function endOf({ index, 0: mark }: RegExpExecArray): number {
  return index + mark.length;
}

/** Return the sentence of a place; between two, the one before it. */
export function sentenceAt(text: string, place: number): Range | undefined {
  const all = sentencesOf(text);
  return all.findLast(({ start }) => start <= place) ?? all[0];
}

/** Divide a text between sentences, into parts of at most so many UTF-16 units where its sentences allow that. */
export function partsOf(text: string, most: number): string[] {
  const made: string[] = [];
  let from = 0;
  for (const { start, end } of sentencesOf(text)) {
    if (end - from > most && start > from) {
      made.push(text.slice(from, start));
      from = start;
    }
  }
  return [...made, text.slice(from)];
}
