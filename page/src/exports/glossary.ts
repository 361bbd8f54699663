import type { Word } from "../text/words";
import { isAllowed } from "../text/words";

/** A word that is explained, and where it comes first. */
export interface GlossaryEntry {
  /** The same for all forms of a word. */
  key: string;
  word: string;
  lemma: string | null;
  rank: number | null;
  sentence: string;
  /** Of the word in the sentence. */
  start: number;
  end: number;
}

/** Return the new words of a text and those that its writer added, in their order; on wish the unlisted ones too. */
export function glossaryOf(text: string, words: readonly Word[], withUnlisted: boolean): GlossaryEntry[] {
  const entries = new Map<string, GlossaryEntry>();
  for (const word of words) {
    if (word.reason !== "new" && word.reason !== "added" && !(withUnlisted && !isAllowed(word))) continue;
    const spelling = text.slice(word.start, word.end);
    const key = folded(word.lemma ?? spelling);
    if (entries.has(key)) continue;
    const around = sentenceAround(text, word.start, word.end);
    entries.set(key, {
      key,
      // A capital may be that of the sentence; the lemma has only those of the word.
      word: key === folded(spelling) ? (word.lemma ?? spelling) : spelling,
      lemma: word.lemma,
      rank: word.rank,
      sentence: text.slice(around.start, around.end),
      start: word.start - around.start,
      end: word.end - around.start,
    });
  }
  return [...entries.values()];
}

export function folded(word: string): string {
  return word.normalize("NFC").toLowerCase();
}

const END_OF_SENTENCE = /[.!?…؟۔।]["'’”»)\]]*\s+|\n+/gu;

/** Return where the sentence of a word begins and ends. Abbreviations end one too: no language's are known here. */
export function sentenceAround(text: string, start: number, end: number): { start: number; end: number } {
  let from = 0;
  for (const mark of text.matchAll(END_OF_SENTENCE)) {
    const after = mark.index + mark[0].length;
    if (mark.index >= end) return trimmed(text, from, after);
    if (after <= start) from = after;
  }
  return trimmed(text, from, text.length);
}

function trimmed(text: string, start: number, end: number): { start: number; end: number } {
  const sentence = text.slice(start, end);
  return { start: start + sentence.length - sentence.trimStart().length, end: start + sentence.trimEnd().length };
}
