import { exercises } from "../api/client";
import { Task } from "../api/request";
import type { Exercise, ExerciseKind, Exercises } from "../api/types";
import { brief, checkVocab, lang, vocabOf } from "../state/brief";
import { kept } from "../state/storage";
import { TextDocument } from "../text/document";

export const LABELS: Readonly<Record<ExerciseKind, string>> = {
  questions: "Questions",
  true_false: "True or false",
  gap_fill: "Gaps",
  matching: "Matching",
  order: "Order",
  dictation: "Dictation",
};

export const KINDS = Object.keys(LABELS) as ExerciseKind[];

/** The text of the Exercises tab. */
export const material = new TextDocument("exercises", checkVocab, lang);

export const settings = kept<{ kinds: ExerciseKind[]; numItems: number }>("exercises", { kinds: KINDS, numItems: 5 });

/** The exercises, with the text that they are from. */
export const made = kept<(Exercises & { text: string }) | null>("exercises.made", null);

export const making = new Task();

/** Take a text from another tab; its new words are to be practised. */
export function takeText(document: TextDocument): void {
  material.edit(document.text.peek());
  material.newWords.value = document.newWords.peek();
}

/** Make exercises from the text, others each time. The ones that are there stay until the first new one comes. */
export function make(): Promise<void> {
  const [text, { kinds, numItems }, { added, mustUse }] = [material.text.peek(), settings.peek(), brief.peek()];
  const vocab = vocabOf(brief.peek(), [...added, ...mustUse, ...material.newWords.peek()]);
  const seed = Math.floor(2 ** 31 * Math.random());
  const come: Exercise[] = [];
  const none = { text, num_sentences: 0, num_unlisted_sentences: 0, left_out: [] };
  return making.run(
    async (signal) => {
      for await (const part of exercises({ text, vocab, kinds, num_items: numItems, seed }, signal)) {
        if ("exercise" in part) come.push(part.exercise);
        made.value = "exercise" in part ? { ...none, exercises: [...come] } : { ...part, text };
      }
      return come.length === 1 ? "One exercise is ready." : `${come.length} exercises are ready.`;
    },
    () => (come.length ? "Stopped. What came until then is kept." : "Stopped."),
  );
}

/** Put an exercise in the place of another one; null for none. */
export function put(old: Exercise, by: Exercise | null): void {
  const all = made.peek();
  if (!all) return;
  const changed = all.exercises.flatMap((each) => (each === old ? (by ?? []) : each));
  made.value = changed.length ? { ...all, exercises: changed } : null;
}

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
