import { signal } from "@preact/signals";

export type TabName = "write" | "check" | "exercises" | "lists";

export const tab = signal<TabName>("write");

/** Lead to a tab; the button that did is gone then, and the focus with it. */
export function show(name: TabName): void {
  tab.value = name;
  document.getElementById(`tab-${name}`)?.focus();
}
