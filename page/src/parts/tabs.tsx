import { signal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

export type TabName = "write" | "check" | "exercises" | "lists";

export const tab = signal<TabName>("write");

/** Lead to a tab; the button that did is gone then, and the focus with it. */
export function show(name: TabName): void {
  tab.value = name;
  document.getElementById(`tab-${name}`)?.focus();
}

export interface Tab<Name extends string> {
  name: Name;
  label: string;
}

interface Props<Name extends string> {
  tabs: readonly Tab<Name>[];
  chosen: Signal<Name>;
  label: string;
}

/** Tabs: arrows move between them, as in other programs. */
export function Tabs<Name extends string>({ tabs, chosen, label }: Props<Name>) {
  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const index = tabs.findIndex(({ name }) => name === chosen.value);
    const next = tabs[(index + step + tabs.length) % tabs.length]!;
    chosen.value = next.name;
    document.getElementById(`tab-${next.name}`)?.focus();
    event.preventDefault();
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
      {tabs.map(({ name, label }) => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`tab-${name}`}
          aria-selected={chosen.value === name}
          aria-controls={`panel-${name}`}
          tabIndex={chosen.value === name ? 0 : -1}
          onClick={() => (chosen.value = name)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

export function Panel({ name, isShown, children }: { name: string; isShown: boolean; children: ComponentChildren }) {
  return (
    <div id={`panel-${name}`} role="tabpanel" aria-labelledby={`tab-${name}`} hidden={!isShown}>
      {isShown && children}
    </div>
  );
}
