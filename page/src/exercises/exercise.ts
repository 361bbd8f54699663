import type { Exercise, ExerciseKind } from "../api/types";

export const LABELS: Readonly<Record<ExerciseKind, string>> = {
  questions: "Questions",
  true_false: "True or false",
  gap_fill: "Gaps",
  matching: "Matching",
  order: "Order",
  dictation: "Dictation",
};

export const KINDS = Object.keys(LABELS) as ExerciseKind[];

/** Return what stands before an option. */
export function letter(index: number): string {
  return String.fromCharCode("a".charCodeAt(0) + index);
}

/** Return the places of the items in the order in which they are printed; of pairs, that of their words. */
export function printedOrder({ kind, items, shown }: Exercise): number[] {
  return kind === "order" && shown ? shown : [...items.keys()];
}

/** Return the answer to each item, in the order in which they are printed. */
export function keyOf(exercise: Exercise): string[] {
  const { kind, items, shown = [] } = exercise;
  return printedOrder(exercise).map((index) => {
    const { options, answer, sentence = "" } = items[index]!;
    if (options) return `${letter(Number(answer))}) ${options[Number(answer)]}`;
    if (kind === "true_false") return answer ? "✓" : "✗";
    if (kind === "matching") return letter(shown.indexOf(index));
    return kind === "order" ? String(index + 1) : sentence;
  });
}

/** Return an exercise without one of its items; null where too few are left for it. */
export function withoutItem(exercise: Exercise, index: number): Exercise | null {
  const items = exercise.items.toSpliced(index, 1);
  if (items.length < (exercise.shown ? 2 : 1)) return null;
  const { shown, ...rest } = exercise;
  const left = shown?.filter((place) => place !== index).map((place) => (place > index ? place - 1 : place));
  return { ...rest, items, ...(left && { shown: left }) };
}
