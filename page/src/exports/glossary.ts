import { sentencesOf } from "../text/sentences";
import { isMissing, type Word } from "../text/words";

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

export function folded(word: string): string {
  return word.normalize("NFC").toLowerCase();
}
