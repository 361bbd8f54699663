import { signal } from "@preact/signals";
import type { Vocab } from "../api/types";
import { kept } from "./storage";

/** Words of a list that the service takes. */
export const MAX_LIST_WORDS = 50_000;

/** A list of the writer's own, which only this browser has. */
export interface MyList {
  name: string;
  lang: string;
  /** In rank order. */
  words: string[];
  options?: ListOptions;
}

export type ListOptions = Pick<Vocab, "unit" | "possessive">;

export const myLists = kept<MyList[]>("lists", []);

/** The list that was deleted last, and its place. */
export const deleted = signal<{ list: MyList; index: number } | null>(null);

export function listNamed(name: string): MyList | undefined {
  return myLists.value.find((list) => list.name === name);
}

/** Keep a list, in the place of the one named `before` if there is one. Names are unique. */
export function keep(list: MyList, before: string | null = null): void {
  const all = myLists.peek();
  const index = all.findIndex(({ name }) => name === (before ?? list.name));
  myLists.value = index < 0 ? [...all, list] : all.with(index, list);
}

export function remove(name: string): void {
  const index = myLists.peek().findIndex((list) => list.name === name);
  const list = myLists.peek()[index];
  if (!list) return;
  deleted.value = { list, index };
  myLists.value = myLists.peek().toSpliced(index, 1);
}

/** Bring back the list that was deleted last. */
export function undoRemove(): void {
  const undone = deleted.peek();
  if (!undone) return;
  const name = freeName(undone.list.name);
  myLists.value = myLists.peek().toSpliced(undone.index, 0, { ...undone.list, name });
  deleted.value = null;
}

/** Return a name that no list has yet: itself, or with a number behind it. */
export function freeName(name: string): string {
  const taken = new Set(myLists.peek().map((list) => list.name));
  for (let number = 2, free = name; ; number += 1) {
    if (!taken.has(free)) return free;
    free = `${name} ${number}`;
  }
}

/** Return a number of words as people say it. */
export function numWords(count: number): string {
  return count === 1 ? "1 word" : `${count.toLocaleString("en")} words`;
}
