import { effect, signal } from "@preact/signals";
import { fetchModel, fetchVocabularies, isReady } from "../api/client";
import { ServiceError } from "../api/request";
import type { ListVocabulary } from "../api/types";
import { unspacedOf } from "../text/language";
import { kept, session } from "./storage";

/** Whether requests can be sent, and if not, what is missing. */
export type Status = "connecting" | "ready" | "loading" | "key" | "offline";

export const status = signal<Status>("connecting");
/** Ends with the tab: a key is a secret. */
export const key = kept("key", "", session());
export const modelId = signal("");
export const vocabularies = signal<ListVocabulary[]>([]);

/** Return the named levels that serve a language. */
export function levelsOf(lang: string): string[] {
  return vocabularies.value
    .filter(({ kind, languages }) => kind === "level" && (!languages.length || languages.includes(lang)))
    .map(({ id }) => id);
}

const RETRY_MS = 2_000;

/** Return what the address names so behind its #, and remove it there; null where it does not. */
export function takeFromAddress(name: string): string | null {
  const members = new URLSearchParams(location.hash.slice(1));
  const given = members.get(name);
  if (given === null) return null;
  members.delete(name);
  history.replaceState(null, "", `${location.pathname}${location.search}${members.size ? `#${members}` : ""}`);
  return given;
}

let timer: ReturnType<typeof setTimeout> | undefined;

/** Ask the service until it answers: which model it has, and which lists. */
async function connect(): Promise<void> {
  clearTimeout(timer);
  if (!key.value) {
    status.value = "key";
    return;
  }
  try {
    if (!(await isReady())) {
      status.value = "loading";
      again();
      return;
    }
    const [model, lists] = await Promise.all([fetchModel(), fetchVocabularies()]);
    modelId.value = model;
    vocabularies.value = lists;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    status.value = error.kind === "key" ? "key" : "offline";
    if (error.kind !== "key") again();
  }
}

function again(): void {
  timer = setTimeout(() => void connect(), RETRY_MS);
}

/** Connect now, and again whenever the key changes or the service was lost. */
export function keepConnected(): void {
  // The demo puts it there.
  key.value = takeFromAddress("key") ?? key.peek();
  effect(() => {
    key.value;
    void connect();
  });
  effect(() => {
    if (status.value === "offline") again();
  });
  addEventListener("online", () => void connect());
}

/** Whether words are shown with how they are read, on the page and in print. */
export const showsReadings = kept("readings", false);

/** Whether the service knows how the words of a list are read. */
export function canRead(lang: string): boolean {
  const id = unspacedOf(lang);
  return id !== null && vocabularies.value.some((entry) => entry.id === id && !!entry.readings);
}

/** Whether the words of a list are shown with how they are read. */
export function isRead(lang: string): boolean {
  return showsReadings.value && canRead(lang);
}
