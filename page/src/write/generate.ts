import { batch, computed, signal } from "@preact/signals";
import { chat } from "../api/client";
import { isAborted, ServiceError } from "../api/errors";
import type { AnswerVocab, AuthorVocab, ChatRequest, Message } from "../api/types";
import { authorVocabOf, type Brief, brief, checkVocab, lang } from "../state/brief";
import { TextDocument } from "../text/document";

/** The text of the Write tab. */
export const draft = new TextDocument("draft", checkVocab, lang);

export type Phase = "idle" | "waiting" | "writing" | "busy";

export const phase = signal<Phase>("idle");
export const fault = signal<ServiceError | null>(null);
/** Why the text is shorter than it could be. */
export const note = signal("");
/** Seconds until a service that is busy is asked again. */
export const countdown = signal(0);
/** What the service said of the last answer. */
export const answered = signal<AnswerVocab | null>(null);
export const isWorking = computed(() => phase.value !== "idle");

/** Tokens of a word, on average, in a language that the tokenizer was not made for. */
const TOKENS_PER_WORD = 1.5;
const MAX_TRIES = 5;
const CANDIDATES = 4;

let abort: AbortController | null = null;

export function stop(): void {
  abort?.abort();
}

/** Write a text by the brief, in the place of the one that is there. */
export async function write(): Promise<void> {
  await run(async (signal) => {
    draft.clear();
    answered.value = null;
    await append(requestOf(brief.peek(), [{ role: "user", content: brief.peek().prompt }]), signal);
  });
}

/** Return the request that writes a text by a brief. */
export function requestOf(brief: Brief, messages: Message[], vocab: AuthorVocab = authorVocabOf(brief)): ChatRequest {
  const request: ChatRequest = { messages, vocab, max_tokens: Math.ceil(brief.length * TOKENS_PER_WORD) };
  if (brief.quality === "better") request.best_of = CANDIDATES;
  return request;
}

/** Append what the service writes to the draft. */
export async function append(request: ChatRequest, signal: AbortSignal): Promise<void> {
  for await (const { text, vocab } of chat(request, signal)) {
    if (text) {
      phase.value = "writing";
      draft.edit(draft.text.peek() + text);
    }
    if (vocab) {
      answered.value = vocab;
      const words = (vocab.new_words ?? []).map(({ word }) => word);
      draft.newWords.value = [...new Set([...draft.newWords.peek(), ...words])];
    }
  }
}

/** Do work of the model: one at a time, again while the service is busy, and until `stop`. */
export async function run(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  stop();
  const own = (abort = new AbortController());
  batch(() => {
    phase.value = "waiting";
    fault.value = null;
    note.value = "";
  });
  try {
    for (let tries = 1; ; tries += 1) {
      try {
        await work(own.signal);
        return;
      } catch (error) {
        if (!(error instanceof ServiceError) || error.kind !== "busy" || tries >= MAX_TRIES) throw error;
        await wait(error.retryAfterS ?? 2, own.signal);
      }
    }
  } catch (error) {
    if (isAborted(error)) note.value = "Stopped.";
    else if (error instanceof ServiceError) fault.value = error;
    else throw error;
  } finally {
    if (abort === own) phase.value = "idle";
  }
}

async function wait(seconds: number, signal: AbortSignal): Promise<void> {
  phase.value = "busy";
  for (let left = Math.ceil(seconds); left > 0; left -= 1) {
    countdown.value = left;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, 1_000);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new DOMException("stopped", "AbortError"));
      });
    });
  }
  phase.value = "waiting";
}
