import { batch, signal } from "@preact/signals";
import { exercises } from "../api/client";
import { isAborted, ServiceError } from "../api/errors";
import type { Exercise, ExerciseKind, Exercises } from "../api/types";
import { brief, checkVocab, lang, vocabOf } from "../state/brief";
import { kept } from "../state/storage";
import { TextDocument } from "../text/document";
import { KINDS } from "./exercise";

/** The text of the Exercises tab. */
export const material = new TextDocument("exercises", checkVocab, lang);

export const settings = kept<{ kinds: ExerciseKind[]; numItems: number }>("exercises", { kinds: KINDS, numItems: 5 });

/** The exercises, with the text that they are from. */
export const made = kept<(Exercises & { text: string }) | null>("exercises.made", null);

export const isMaking = signal(false);
export const fault = signal<ServiceError | null>(null);
export const message = signal("");

let abort: AbortController | null = null;

export function stop(): void {
  abort?.abort();
}

/** Take a text from another tab; its new words are to be practised. */
export function takeText(document: TextDocument): void {
  material.edit(document.text.peek());
  material.newWords.value = document.newWords.peek();
}

/** Make exercises from the text, others each time. The ones that are there stay until the first new one comes. */
export async function make(): Promise<void> {
  stop();
  const own = (abort = new AbortController());
  batch(() => {
    isMaking.value = true;
    fault.value = null;
    message.value = "";
  });
  const [text, { kinds, numItems }, { added, mustUse }] = [material.text.peek(), settings.peek(), brief.peek()];
  const vocab = vocabOf(brief.peek(), [...added, ...mustUse, ...material.newWords.peek()]);
  const seed = Math.floor(2 ** 31 * Math.random());
  const come: Exercise[] = [];
  const none = { text, num_sentences: 0, num_unlisted_sentences: 0, left_out: [] };
  try {
    for await (const part of exercises({ text, vocab, kinds, num_items: numItems, seed }, own.signal)) {
      if ("exercise" in part) come.push(part.exercise);
      made.value = "exercise" in part ? { ...none, exercises: [...come] } : { ...part, text };
    }
    message.value = come.length === 1 ? "One exercise is ready." : `${come.length} exercises are ready.`;
  } catch (error) {
    if (abort !== own) return;
    if (isAborted(error)) message.value = come.length ? "Stopped. What came until then is kept." : "Stopped.";
    else if (error instanceof ServiceError) fault.value = error;
    else throw error;
  } finally {
    if (abort === own) isMaking.value = false;
  }
}

/** Put an exercise in the place of another one; null for none. */
export function put(old: Exercise, by: Exercise | null): void {
  const all = made.peek();
  if (!all) return;
  const changed = all.exercises.flatMap((each) => (each === old ? (by ?? []) : each));
  made.value = changed.length ? { ...all, exercises: changed } : null;
}
