import { batch, computed, signal } from "@preact/signals";
import { readWords } from "../api/client";
import { LatestRequest, ServiceError } from "../api/request";
import type { ReadEntry, ReadVocabulary } from "../api/types";
import { brief } from "../state/brief";
import {
  freeName,
  keep,
  listNamed,
  type ListOptions,
  MAX_LIST_WORDS,
  type MyList,
  myLists,
  numWords,
} from "../state/lists";

/** What the tab shows: a list, the form of one that is made or changed, or two lists that become one. */
export type Shown = { kind: "list"; name: string } | { kind: "form"; before: string | null } | { kind: "combine" };

const [first] = myLists.peek();
export const shown = signal<Shown>(first ? { kind: "list", name: first.name } : { kind: "form", before: null });

export const form = {
  name: signal(""),
  lang: signal(brief.peek().lang),
  /** Whose words are taken instead of the text. */
  file: signal<File | null>(null),
  text: signal(""),
  /** The highest level that is taken; empty for all words. */
  level: signal(""),
  options: signal<ListOptions>({}),
};

/** What the service understood of the words. */
export const read = signal<ReadVocabulary | null>(null);
export const reading = new LatestRequest();

export const entries = computed(() => (read.value ? entriesUpTo(read.value, form.level.value) : []));
export const words = computed(() => wordsOf(entries.value));

/** After the last key, until the words are read: that takes a process of the service. */
const PAUSE_MS = 800;

/** Have the service read the words of the form. */
function lookAt(pauseMs: number, done?: () => void): void {
  const [file, text, lang] = [form.file.peek(), form.text.peek(), form.lang.peek()];
  if (!file && !text.trim()) {
    reading.cancel();
    read.value = null;
    done?.();
    return;
  }
  reading.send(
    pauseMs,
    (signal) => readWords(file ?? new Blob([text]), file?.name ?? "", lang, signal),
    (found) => {
      read.value = found;
      if (!found.levels.includes(form.level.peek())) form.level.value = "";
      done?.();
    },
  );
}

export function startList(): void {
  fill({ name: "", lang: brief.peek().lang, words: [] }, null);
}

export function changeList(list: MyList): void {
  fill(list, list.name);
}

function fill({ name, lang, words, options = {} }: MyList, before: string | null): void {
  reading.cancel();
  batch(() => {
    form.name.value = name;
    form.options.value = options;
    take(null, words.join("\n"), lang);
    shown.value = { kind: "form", before };
  });
}

/** Take the words of a file, or those that are typed. */
export function take(file: File | null, text = "", lang = form.lang.peek()): void {
  batch(() => {
    form.file.value = file;
    form.text.value = text;
    form.lang.value = lang;
    if (file && !form.name.value) form.name.value = freeName(file.name.replace(/\.[^.]*$/, ""));
    lookAt(file ? 0 : PAUSE_MS);
  });
}

/** Whether the words of the form may take 's. */
export const canBePossessive = computed(() => form.lang.value.split(/[-_]/)[0] === "en");

/** Keep the list of the form, and show it. */
export function saveForm(before: string | null): void {
  if (reading.isPending.peek() || reading.fault.peek()) lookAt(0, () => save(before));
  else save(before);
}

function save(before: string | null): void {
  const [name, lang, taken] = [form.name.peek().trim(), form.lang.peek(), words.peek()];
  let message = "";
  if (!taken.length) message = "There is no word to save yet.";
  else if (taken.length > MAX_LIST_WORDS)
    message = `These are ${numWords(taken.length)}; a list has at most ${numWords(MAX_LIST_WORDS)}. Choose a level, or take a part of them.`;
  else if (name !== before && listNamed(name)) message = `You have a list named "${name}" already.`;
  if (message) {
    reading.fault.value = new ServiceError("request", message);
    return;
  }
  const { unit = null, possessive = null } = form.options.peek();
  keep({ name, lang, words: taken, options: { unit, possessive: canBePossessive.peek() && possessive } }, before);
  shown.value = { kind: "list", name };
  // A brief goes by names.
  if (before !== null && brief.peek().myList === before) {
    brief.value = { ...brief.peek(), myList: lang === brief.peek().lang ? name : "" };
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
