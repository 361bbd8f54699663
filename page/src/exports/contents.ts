import { sentencesOf } from "../text/sentences";
import { bandOf, folded, isMissing, type Word } from "../text/words";

/** Which words of a text are left out: every nth, or those of a band. */
export type Choice = { kind: "every" | "new" | "unlisted" | "band"; nth: number; band: number };

/** A text with gaps: the pieces between them, and what belongs into each. */
export interface GapFill {
  /** One more than there are answers. */
  pieces: string[];
  answers: string[];
  /** The answers in another order. */
  bank: string[];
}

/** Replace words of a text by gaps. The same seed gives the same order of the word bank. */
export function gapFill(text: string, words: readonly Word[], choice: Choice, seed: number): GapFill {
  const pieces: string[] = [];
  const answers: string[] = [];
  let done = 0;
  for (const word of chosen(words, choice)) {
    pieces.push(text.slice(done, word.start));
    answers.push(text.slice(word.start, word.end));
    done = word.end;
  }
  pieces.push(text.slice(done));
  return { pieces, answers, bank: shuffled(answers, seed) };
}

function chosen(words: readonly Word[], choice: Choice): Word[] {
  const able = words.filter(({ reason }) => reason !== "number" && reason !== "symbol");
  switch (choice.kind) {
    case "every":
      return able.filter((_, index) => (index + 1) % choice.nth === 0);
    case "new":
      return able.filter(({ reason }) => reason === "new");
    case "unlisted":
      return able.filter(isMissing);
    case "band":
      return able.filter(({ rank, reason }) => reason !== "added" && bandOf(rank) === choice.band);
  }
}

/** Return values in an order that the seed gives (Fisher and Yates, with the generator mulberry32). */
export function shuffled<Value>(values: readonly Value[], seed: number): Value[] {
  const made = [...values];
  let state = seed >>> 0;
  for (let last = made.length - 1; last > 0; last -= 1) {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    const place = Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * (last + 1));
    [made[last], made[place]] = [made[place]!, made[last]!];
  }
  return made;
}

/** A word that is explained, and where it comes first. */
export interface GlossaryEntry {
  /** The same for all forms of a word. */
  key: string;
  word: string;
  lemma: string | null;
  rank: number | null;
  /** How it is read, where the text was checked with readings. */
  reading?: string;
  sentence: string;
  /** Of the word in the sentence. */
  start: number;
  end: number;
}

/** Return the new words of a text and those that its writer added, in their order; on wish the unlisted ones too. */
export function glossaryOf(text: string, words: readonly Word[], withUnlisted: boolean): GlossaryEntry[] {
  const entries = new Map<string, GlossaryEntry>();
  const sentences = sentencesOf(text);
  let at = 0;
  for (const word of words) {
    if (word.reason === "symbol") continue;
    if (word.reason !== "new" && word.reason !== "added" && !(withUnlisted && isMissing(word))) continue;
    const spelling = text.slice(word.start, word.end);
    const key = folded(word.lemma ?? spelling);
    if (entries.has(key)) continue;
    while (at < sentences.length - 1 && sentences[at]!.end <= word.start) at += 1;
    const around = sentences[at]!;
    entries.set(key, {
      key,
      // A capital may be that of the sentence; the lemma has only those of the word.
      word: key === folded(spelling) ? (word.lemma ?? spelling) : spelling,
      lemma: word.lemma,
      rank: word.rank,
      ...(word.reading && { reading: word.reading }),
      sentence: text.slice(around.start, around.end),
      start: word.start - around.start,
      end: word.end - around.start,
    });
  }
  return [...entries.values()];
}
