import { unspacedOf } from "../text/language";
import { vocabularies } from "./connection";
import { kept } from "./storage";

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
