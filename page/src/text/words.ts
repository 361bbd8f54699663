import type { NearestWord, Reason, Report, RunningWord } from "../api/types";

/** A part of a text, in UTF-16 units. */
export interface Range {
  start: number;
  end: number;
}

/** Convert places of a text from code points, as the service counts, to UTF-16 units, as strings do, and back. */
export class Offsets {
  /** The code points behind which a text is one unit ahead. */
  private readonly pairs: number[] = [];

  constructor(text: string) {
    let point = 0;
    for (const char of text) {
      if (char.length === 2) this.pairs.push(point);
      point += 1;
    }
  }

  toUnits(point: number): number {
    return point + this.numPairsBefore((index) => this.pairs[index]! < point);
  }

  toPoints(unit: number): number {
    return unit - this.numPairsBefore((index) => this.pairs[index]! + index < unit);
  }

  private numPairsBefore(isBefore: (index: number) => boolean): number {
    let [low, high] = [0, this.pairs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const BETWEEN_WORDS = /[\s。！？…，、；：「」『』《》（）“”]/;

/** Return what stands around a part of a text, from a blank or wide mark to another, and where it begins. */
export function partAround(
  text: string,
  { start, end }: Range,
  before: number,
  behind: number,
): { from: number; part: string } {
  let from = Math.max(0, start - before);
  while (from > 0 && from < start && !BETWEEN_WORDS.test(text[from]!)) from += 1;
  let to = Math.min(text.length, end + behind);
  while (to < text.length && to > end && !BETWEEN_WORDS.test(text[to]!)) to -= 1;
  return { from, part: text.slice(from, to) };
}

/** A word of a text; its places in UTF-16 units. */
export interface Word extends RunningWord {
  nearest: NearestWord[];
}

/** The largest rank of each band; the last band has all other words. */
export const BANDS = [500, 1_000, 2_000, 3_000, 5_000, 10_000] as const;

export function bandOf(rank: number | null): number {
  const band = rank === null ? -1 : BANDS.findIndex((most) => rank <= most);
  return band < 0 ? BANDS.length : band;
}

export function bandName(band: number): string {
  const most = BANDS[band];
  if (most === undefined) return `beyond ${BANDS.at(-1)!.toLocaleString("en")}`;
  return `${((BANDS[band - 1] ?? 0) + 1).toLocaleString("en")} to ${most.toLocaleString("en")}`;
}

const ALLOWED: ReadonlySet<Reason> = new Set(["listed", "capitals", "spelling", "added", "number"]);

export function isAllowed(word: Word): boolean {
  return ALLOWED.has(word.reason);
}

/** Whether a word is to be mended: new ones and names are not in the list either, and may stay. */
export function isMissing(word: Word): boolean {
  return !isAllowed(word) && word.reason !== "new" && word.reason !== "name";
}

/** Why a word is allowed or not, as a phrase. */
export const WHY: Readonly<Record<Reason, string>> = {
  listed: "in the list",
  capitals: "in the list, with other capitals",
  spelling: "in the list, spelt otherwise",
  added: "one of your words",
  number: "a number",
  new: "a new word",
  name: "a name",
  rare: "beyond the list",
  excluded: "left out",
  unknown: "not in the list",
  symbol: "a symbol",
};

/** Return the words of a checked text. */
export function wordsOf(text: string, report: Report): Word[] {
  const offsets = new Offsets(text);
  const nearest = new Map(report.not_allowed.map((place) => [place.start, place.nearest]));
  return (report.words ?? []).map((word) => ({
    ...word,
    start: offsets.toUnits(word.start),
    end: offsets.toUnits(word.end),
    nearest: nearest.get(word.start) ?? [],
  }));
}

/** Return what an edit replaced: from `start` to `end` of the old text, by `by`. */
export function differenceOf(before: string, after: string): Range & { by: string } {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  return { start: head, end: before.length - tail, by: after.slice(head, after.length - tail) };
}

/** Return the words of `before` where they are in `after`; those that the edit touched are left out. */
export function moved(words: readonly Word[], before: string, after: string): Word[] {
  const { start: head, end: touched } = differenceOf(before, after);
  const shift = after.length - before.length;
  const isNextTo = (char: string | undefined): boolean => char !== undefined && PART_OF_WORD.test(char);
  const kept: Word[] = [];
  for (const word of words) {
    if (word.end < head || (word.end === head && !isNextTo(after[head]))) {
      kept.push(word);
    } else if (word.start > touched || (word.start === touched && !isNextTo(after[touched + shift - 1]))) {
      kept.push({ ...word, start: word.start + shift, end: word.end + shift });
    }
  }
  return kept;
}

const PART_OF_WORD = /[\p{L}\p{M}\p{N}\p{S}\p{Cf}'’-]/u;

export interface Paragraph {
  start: number;
  text: string;
  /** Their places are in the paragraph. */
  words: Word[];
}

/** Divide a text at its line breaks. */
export function paragraphsOf(text: string, words: readonly Word[]): Paragraph[] {
  const made: Paragraph[] = [];
  let [start, next] = [0, 0];
  for (const line of text.split("\n")) {
    const end = start + line.length;
    const own: Word[] = [];
    for (; next < words.length && words[next]!.start < end; next += 1) {
      const word = words[next]!;
      own.push({ ...word, start: word.start - start, end: Math.min(word.end, end) - start });
    }
    made.push({ start, text: line, words: own });
    start = end + 1;
  }
  return made;
}

// Where an edit does not move the other ends, as it would if pieces were of a number of words.
const END_OF_PIECE = /[.!?,;:…،؛؟۔।]["'”’»)]*\s+|[。！？…，、；：]+[」』》）”’]*|(?<=\p{Script=Thai})\s+/gu;

/** Divide a paragraph at its marks. */
export function piecesOf({ text, words }: Paragraph): Paragraph[] {
  const ends = [...text.matchAll(END_OF_PIECE)].map(({ index, 0: mark }) => index + mark.length);
  let [start, next] = [0, 0];
  return [...ends, text.length].flatMap((end) => {
    const own: Word[] = [];
    // A word may have a mark in it.
    if (next < words.length && words[next]!.start < end && words[next]!.end > end) return [];
    for (; next < words.length && words[next]!.start < end; next += 1) {
      const word = words[next]!;
      own.push({ ...word, start: word.start - start, end: word.end - start });
    }
    const piece = { start, text: text.slice(start, end), words: own };
    start = end;
    return [piece];
  });
}

/** Whether two paragraphs look the same, wherever they stand. */
function looksLike(one: Paragraph, other: Paragraph): boolean {
  return (
    one.text === other.text &&
    one.words.length === other.words.length &&
    one.words.every((word, index) => {
      const { start, end, rank, reason } = other.words[index]!;
      return word.start === start && word.end === end && word.rank === rank && word.reason === reason;
    })
  );
}

/** A paragraph, or a piece of one, as it was drawn. */
export interface Drawn {
  /** Stays while the paragraph is edited. */
  id: number;
  paragraph: Paragraph;
}

let lastId = 0;

/** Return the paragraphs to draw: those that look as before are the same objects, so that a key draws one of them anew. */
export function drawn(before: readonly Drawn[], now: readonly Paragraph[]): Drawn[] {
  const most = Math.min(before.length, now.length);
  const isSame = (old: Drawn | undefined, paragraph: Paragraph): boolean =>
    !!old && looksLike(old.paragraph, paragraph);
  let head = 0;
  while (head < most && isSame(before[head], now[head]!)) head += 1;
  let tail = 0;
  while (tail < most - head && isSame(before.at(-1 - tail), now.at(-1 - tail)!)) tail += 1;
  return now.map((paragraph, index) => {
    const isBehind = index >= now.length - tail;
    const old = isBehind
      ? before[index - now.length + before.length]!
      : index < before.length - tail
        ? before[index]
        : undefined;
    return isSame(old, paragraph) ? old! : { id: old?.id ?? (lastId += 1), paragraph };
  });
}

/** Return the word at a place of a text, or at its end. */
export function wordAt(words: readonly Word[], place: number): Word | undefined {
  return words.find((word) => word.start <= place && place <= word.end);
}

/**
 * Return which required words a checked text lacks.
 *
 * A word occurs if one is spelled so, in any capitals; in any form, if one has it as its lemma.
 */
export function unusedOf(
  required: readonly string[],
  anyForm: boolean,
  text: string,
  words: readonly Word[],
): string[] {
  const plain = (word: string): string => folded(word).replaceAll("’", "'");
  const met = new Set<string>();
  for (const { start, end, lemma } of words) {
    met.add(plain(text.slice(start, end)));
    if (anyForm && lemma) met.add(plain(lemma));
  }
  const whole = ` ${words.map(({ start, end }) => plain(text.slice(start, end))).join(" ")} `;
  return required.filter((word) => {
    const sought = plain(word);
    // An entry of several words.
    return !met.has(sought) && !(/\s/.test(sought) && whole.includes(` ${sought.split(/\s+/).join(" ")} `));
  });
}

/** Return a word as all of its spellings in capitals. */
export function folded(word: string): string {
  return word.normalize("NFC").toLowerCase();
}
