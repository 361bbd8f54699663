import type { ReadEntry, ReadVocabulary } from "../api/types";

/** Return the entries of a file up to a level; all of them for none. */
export function entriesUpTo({ entries, levels }: ReadVocabulary, level: string): ReadEntry[] {
  if (!level) return entries;
  const taken = new Set(levels.slice(0, levels.indexOf(level) + 1));
  return entries.filter((entry) => entry.level !== null && taken.has(entry.level));
}

/** Return the words of entries, each before its forms. */
export function wordsOf(entries: readonly ReadEntry[]): string[] {
  return [...new Set(entries.flatMap(({ word, forms }) => [word, ...forms]))];
}
