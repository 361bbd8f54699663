import { effect, type Signal, signal } from "@preact/signals";

const PREFIX = "wordbound.";

/** What does not fit into the store, by name: it is lost when the page is closed. */
export const unkept = signal<readonly string[]>([]);

/** A signal whose value this browser keeps. `place` is `sessionStorage` for what ends with the tab. */
export function kept<Value>(name: string, initial: Value, place = available(() => localStorage)): Signal<Value> {
  const made = signal<Value>(read(place, name) ?? initial);
  effect(() => {
    const value = JSON.stringify(made.value);
    try {
      place?.setItem(PREFIX + name, value);
      if (unkept.peek().includes(name)) unkept.value = unkept.peek().filter((other) => other !== name);
    } catch {
      // Full, or forbidden by the browser: the page works without it.
      if (!unkept.peek().includes(name)) unkept.value = [...unkept.peek(), name];
    }
  });
  return made;
}

function read<Value>(place: Storage | null, name: string): Value | null {
  try {
    const value = place?.getItem(PREFIX + name);
    return value ? (JSON.parse(value) as Value) : null;
  } catch {
    return null;
  }
}

export function session(): Storage | null {
  return available(() => sessionStorage);
}

// The property itself throws where a browser forbids it.
function available(get: () => Storage): Storage | null {
  try {
    return get();
  } catch {
    return null;
  }
}
