import type { Range } from "./document";

/** Return what an edit replaced: from `start` to `end` of the old text, by `by`. */
export function differenceOf(before: string, after: string): Range & { by: string } {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  return { start: head, end: before.length - tail, by: after.slice(head, after.length - tail) };
}

/**
 * Put a text into a text area as if it was typed, so that the browser's undo brings the old one back.
 *
 * A value that is set by a script empties the undo history; `insertText`, deprecated as it is, has no successor.
 */
export function typeInto(area: HTMLTextAreaElement, text: string): void {
  const { start, end, by } = differenceOf(area.value, text);
  const focused = document.activeElement;
  area.focus({ preventScroll: true });
  area.setSelectionRange(start, end);
  const isDone =
    document.activeElement === area &&
    (by ? document.execCommand("insertText", false, by) : document.execCommand("delete"));
  if (!isDone || area.value !== text) area.value = text;
  if (focused === area) return;
  if (focused instanceof HTMLElement && focused !== document.body) focused.focus({ preventScroll: true });
  else area.blur();
}
