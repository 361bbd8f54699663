import { type Brief, SIZES } from "../state/brief";

/**
 * Return the list that is a step simpler (-1) or harder (1) than that of a brief; null where there is none.
 *
 * `levels` are the named levels that serve its language. A list of the writer's own has no steps.
 */
export function stepOf(
  brief: Brief,
  direction: -1 | 1,
  levels: readonly string[],
): Pick<Brief, "numWords" | "level"> | null {
  const { numWords, level, myList } = brief;
  if (myList) return null;
  if (level) {
    const all = [...levels].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    const next = all[all.indexOf(level) + direction];
    return next && all.includes(level) ? { numWords, level: next } : null;
  }
  const next = direction < 0 ? SIZES.findLast((size) => size < numWords) : SIZES.find((size) => size > numWords);
  return next ? { numWords: next, level: "" } : null;
}
