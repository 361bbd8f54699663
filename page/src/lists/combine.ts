import type { ReadEntry, ReadVocabulary } from "../api/types";

/** Return the words of both lists: those of the first, then what the second has besides. */
export function union(first: readonly string[], second: readonly string[]): string[] {
  return [...new Set([...first, ...second])];
}

/**
 * Return the words of the first list that the second lacks.
 *
 * As in a check, a listed word counts in other capitals ("The" is "the"), and a word with capitals of its own does not
 * ("hund" is not "Hund").
 */
export function minus(first: readonly string[], second: readonly string[], lang: string): string[] {
  const lacking = new Set(second);
  return first.filter((word) => !lacking.has(word) && !lacking.has(lowered(word, lang)));
}

function lowered(word: string, lang: string): string {
  try {
    return word.toLocaleLowerCase(lang.replace("_", "-"));
  } catch {
    // A list of the service may be named anything.
    return word.toLowerCase();
  }
}

/** Return the entries of a file up to a level; all of them for none. */
export function entriesUpTo({ entries, levels }: ReadVocabulary, level: string): readonly ReadEntry[] {
  const taken = new Set<string | null>(levels.slice(0, levels.indexOf(level) + 1));
  return level ? entries.filter((entry) => taken.has(entry.level)) : entries;
}

/** Return the words of entries, each before its forms and once. */
export function wordsOf(entries: readonly ReadEntry[]): string[] {
  return [...new Set(entries.flatMap(({ word, forms }) => [word, ...forms]))];
}
