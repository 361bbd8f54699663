import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { Button } from "./controls";

export type TabName = "write" | "check" | "exercises" | "lists";

export const tab = signal<TabName>("write");

/** Lead to a tab; the button that did is gone then, and the focus with it. */
export function show(name: TabName): void {
  tab.value = name;
  document.getElementById(`tab-${name}`)?.focus();
}

/** What each is called, and what it shows. */
type Tabs = Readonly<Record<TabName, readonly [string, ComponentType]>>;

/** The tabs' buttons: arrows move between them, as in other programs. */
export function TabList({ tabs, label }: { tabs: Tabs; label: string }) {
  const names = Object.keys(tabs) as TabName[];
  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    show(names.at((names.indexOf(tab.value) + step) % names.length)!);
    event.preventDefault();
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
      {names.map((name) => (
        <Button
          key={name}
          label={tabs[name][0]}
          role="tab"
          id={`tab-${name}`}
          aria-selected={tab.value === name}
          aria-controls={`panel-${name}`}
          tabIndex={tab.value === name ? 0 : -1}
          onClick={() => (tab.value = name)}
        />
      ))}
    </div>
  );
}

export function Panels({ tabs }: { tabs: Tabs }) {
  return (Object.keys(tabs) as TabName[]).map((name) => {
    const [, Shown] = tabs[name];
    return (
      <div key={name} id={`panel-${name}`} role="tabpanel" aria-labelledby={`tab-${name}`} hidden={tab.value !== name}>
        {tab.value === name && <Shown />}
      </div>
    );
  });
}
