import { batch, computed, effect, signal } from "@preact/signals";
import { readWords } from "../api/client";
import { isAborted, ServiceError } from "../api/errors";
import type { ReadVocabulary } from "../api/types";
import { brief } from "../state/brief";
import { freeName, keep, listNamed, MAX_LIST_WORDS, type MyList, myLists, numWords } from "../state/lists";
import { entriesUpTo, wordsOf } from "./imported";

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
  withForms: signal(false),
  possessive: signal(false),
  message: signal(""),
  fault: signal<ServiceError | null>(null),
};

/** The words of a list that is changed, until they are. */
const unchanged = signal<string[] | null>(null);

/** What the service understood, and whether that is of older words. */
export const read = signal<ReadVocabulary | null>(null);
export const isReading = signal(false);

export const entries = computed(() => (read.value ? entriesUpTo(read.value, form.level.value) : []));
export const words = computed(() => unchanged.value ?? wordsOf(entries.value));

/** After the last key, until the words are read: a file takes a process of the service. */
const PAUSE_MS = 800;

let timer: ReturnType<typeof setTimeout> | undefined;
let abort: AbortController | null = null;

effect(() => {
  const hasWords = form.file.value !== null || form.text.value.trim() !== "";
  form.lang.value;
  clearTimeout(timer);
  abort?.abort();
  form.fault.value = null;
  isReading.value = hasWords && unchanged.value === null;
  if (isReading.peek()) timer = setTimeout(() => void readNow(), form.file.peek() ? 0 : PAUSE_MS);
  else read.value = null;
});

async function readNow(): Promise<void> {
  clearTimeout(timer);
  abort?.abort();
  const own = (abort = new AbortController());
  const [file, text] = [form.file.peek(), form.text.peek()];
  try {
    const found = await readWords(file ?? new Blob([text]), file?.name ?? "", form.lang.peek(), own.signal);
    batch(() => {
      read.value = found;
      if (!found.levels.includes(form.level.peek())) form.level.value = "";
      form.fault.value = null;
      isReading.value = false;
    });
  } catch (error) {
    if (isAborted(error)) return;
    if (!(error instanceof ServiceError)) throw error;
    batch(() => {
      read.value = null;
      form.fault.value = error;
      isReading.value = false;
    });
    if (error.kind === "busy") timer = setTimeout(() => void readNow(), 1_000 * (error.retryAfterS ?? 2));
  }
}

export function startList(): void {
  fill({ name: "", lang: brief.peek().lang, words: [] }, null);
}

export function changeList(list: MyList): void {
  fill(list, list.name);
}

function fill({ name, lang, words, withForms = false, possessive = false }: MyList, before: string | null): void {
  batch(() => {
    form.name.value = name;
    form.lang.value = lang;
    form.withForms.value = withForms;
    form.possessive.value = possessive;
    take(null, words.join("\n"));
    unchanged.value = words;
    shown.value = { kind: "form", before };
  });
}

/** Take the words of a file, or those that are typed. */
export function take(file: File | null, text = ""): void {
  batch(() => {
    unchanged.value = null;
    form.file.value = file;
    form.text.value = text;
    form.message.value = "";
    if (file && !form.name.value) form.name.value = freeName(file.name.replace(/\.[^.]*$/, ""));
  });
}

/** Whether the words of the form may take 's. */
export const canBePossessive = computed(() => form.lang.value.split(/[-_]/)[0] === "en");

/** Keep the list of the form, and show it. */
export async function saveForm(before: string | null): Promise<void> {
  if (isReading.peek() || form.fault.peek()) await readNow();
  if (isReading.peek() || form.fault.peek()) return;
  const [name, lang, taken] = [form.name.peek().trim(), form.lang.peek(), words.peek()];
  if (!taken.length) form.message.value = "There is no word to save yet.";
  else if (taken.length > MAX_LIST_WORDS)
    form.message.value = `These are ${numWords(taken.length)}; a list has at most ${numWords(MAX_LIST_WORDS)}. Choose a level, or take a part of them.`;
  else if (name !== before && listNamed(name)) form.message.value = `You have a list named "${name}" already.`;
  else {
    const possessive = form.possessive.peek() && canBePossessive.peek();
    keep({ name, lang, words: taken, withForms: form.withForms.peek(), possessive }, before);
    shown.value = { kind: "list", name };
    // A brief goes by names.
    if (before !== null && brief.peek().myList === before) {
      brief.value = { ...brief.peek(), myList: lang === brief.peek().lang ? name : "" };
    }
  }
}
