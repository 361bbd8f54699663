import { computed } from "@preact/signals";
import type { PromptWord, Vocab } from "../api/types";
import { folded } from "../text/words";
import { myLists } from "./lists";
import { kept } from "./storage";

export const MIN_WORDS = 300;
export const MAX_WORDS = 10_000;

/** What is to be written, and in which words. */
export const DEFAULT_BRIEF = {
  prompt: "",
  lang: "en",
  /** One of the writer's own lists, by name, instead of the language's. */
  myList: "",
  /** A named level instead of a number of words. */
  level: "",
  numWords: 1_000,
  /** Names and other words that are allowed besides. */
  added: [] as string[],
  excluded: [] as string[],
  mustUse: [] as string[],
  anyForm: true,
  newWords: false,
  newWordsFrom: 3_000,
  newWordsPer100: 2,
  maxSentenceWords: null as number | null,
  quality: "fast" as "fast" | "better",
  /** Of the text, in words. */
  length: 120,
};

export type Brief = typeof DEFAULT_BRIEF;

export const brief = kept("brief", DEFAULT_BRIEF);
// One that an earlier version kept may lack members.
change({});

export function change(members: Partial<Brief>): void {
  brief.value = { ...DEFAULT_BRIEF, ...brief.peek(), ...members };
}

export const lang = computed(() => brief.value.lang);

/** The list of the brief, for checks. Required words count as listed. */
export const checkVocab = computed<Vocab>(() => vocabOf(brief.value, [...brief.value.added, ...brief.value.mustUse]));

/** Return the list of a brief, without its author's wishes. */
export function vocabOf(brief: Brief, added: readonly string[] = brief.added): Vocab {
  const own = myLists.value.find((list) => list.name === brief.myList && list.lang === brief.lang);
  const excluded = new Set(brief.excluded.map(folded));
  const extra = distinct(added).filter((word) => !excluded.has(folded(word)));
  return {
    lang: brief.lang,
    ...(own ? { words: own.words } : brief.level ? { level: brief.level } : { n_words: brief.numWords }),
    ...own?.options,
    ...(extra.length && { extra_words: extra }),
    ...(brief.excluded.length && { exclude_words: distinct(brief.excluded) }),
    numbers: true,
  };
}

/** Return the list of a brief with what the text should be like. */
export function authorVocabOf(brief: Brief): Vocab {
  // A text may have numbers; one that is written has words for them, unless the service says otherwise.
  const { numbers: _, ...vocab }: Vocab = vocabOf(brief);
  if (brief.mustUse.length) vocab.must_use = distinct(brief.mustUse).map((word) => ({ word, any_form: brief.anyForm }));
  if (brief.newWords && !brief.myList && !brief.level && brief.newWordsFrom > brief.numWords) {
    vocab.new_words = { n_words: brief.newWordsFrom, per_100: brief.newWordsPer100 };
  }
  if (brief.maxSentenceWords !== null) vocab.max_sentence_words = brief.maxSentenceWords;
  return vocab;
}

/** Return words without those that come twice. */
export function distinct(words: readonly string[]): string[] {
  return [...new Map(words.map((word) => [folded(word), word])).values()];
}

/** Return words with one and its forms, or without them where it is among them. */
export function toggled(added: readonly string[], { word, forms }: PromptWord): string[] {
  const own = [word, ...forms];
  const others = added.filter((one) => !own.includes(one));
  return added.includes(word) ? others : [...others, ...own];
}

/** Divide what a person typed into words: at commas and line breaks. */
export function wordsTyped(typed: string): string[] {
  return distinct(
    typed
      .split(/[,;\n，；、]/)
      .map((word) => word.trim())
      .filter(Boolean),
  );
}

/** The round sizes, which the slider meets exactly. They are the steps of "simpler" and "harder". */
export const SIZES = [MIN_WORDS, 500, 1_000, 2_000, 3_000, 5_000, MAX_WORDS] as const;

/** Return how many words a place of the slider means; places go from 0 to 100, and each step is by the same share. */
export function wordsOfPlace(place: number): number {
  const round = SIZES.find((size) => placeOfWords(size) === place);
  if (round) return round;
  const exact = MIN_WORDS * (MAX_WORDS / MIN_WORDS) ** (place / 100);
  // Finer than the places, so that no two are the same.
  const step = exact < 1_000 ? 10 : exact < 2_000 ? 20 : exact < 5_000 ? 50 : 100;
  return Math.round(exact / step) * step;
}

export function placeOfWords(numWords: number): number {
  const within = Math.min(Math.max(numWords, MIN_WORDS), MAX_WORDS);
  return Math.round((100 * Math.log(within / MIN_WORDS)) / Math.log(MAX_WORDS / MIN_WORDS));
}

/**
 * Return the list that is a step simpler (-1) or harder (1) than that of a brief; null where there is none.
 *
 * `levels` are the named levels that serve its language. A list of the writer's own has no steps.
 */
export function stepOf(
  brief: Brief,
  direction: -1 | 1,
  levels: readonly string[],
): Pick<Brief, "numWords" | "level"> | null {
  const { numWords, level, myList } = brief;
  if (myList) return null;
  if (level) {
    const all = [...levels].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    const next = all[all.indexOf(level) + direction];
    return next && all.includes(level) ? { numWords, level: next } : null;
  }
  const next = direction < 0 ? SIZES.findLast((size) => size < numWords) : SIZES.find((size) => size > numWords);
  return next ? { numWords: next, level: "" } : null;
}
