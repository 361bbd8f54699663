import { batch, effect, signal } from "@preact/signals";
import { chat, rewrite } from "../api/client";
import { ServiceError, Task } from "../api/request";
import type { AnswerVocab, ChatRequest, Message, Vocab } from "../api/types";
import { authorVocabOf, type Brief, brief, change, checkVocab, lang } from "../state/brief";
import { status } from "../state/connection";
import { kept } from "../state/storage";
import { TextDocument } from "../text/document";
import { unspacedOf } from "../text/language";
import { partsOf } from "../text/sentences";

/** The text of the Write tab. */
export const draft = new TextDocument("draft", checkVocab, lang);

/** What the model is asked for. Its message says why the text is shorter than it could be. */
export const task = new Task();
export const phase = signal<"waiting" | "writing" | "busy">("waiting");
/** Seconds until a service that is busy is asked again. */
export const countdown = signal(0);
/** Whether the first text of a list is waited for, which compiles it. */
export const isPreparing = signal(false);
/** What the service said of the last answer, and the draft that it said it of. */
export const answered = signal<{ vocab: AnswerVocab; text: string } | null>(null);
export const isWorking = task.isOn;
effect(() => {
  draft.isHeld.value = isWorking.value;
});

interface Past {
  text: string;
  newWords: string[];
  list: Partial<Brief>;
}

/** What an action replaced. The browser's undo has it too, but not when the page was loaded anew. */
export const past = kept<Past | null>("draft.past", null);

/** At most, about: tokenizers know English words best. */
const TOKENS_PER_WORD = 2;
const TOKENS_PER_ENGLISH_WORD = 1.25;
/** A small model's tokenizer spells most Chinese characters in two or three. */
const TOKENS_PER_UNSPACED_WORD = 4;
/** Of the sentences that a text has at least. */
const WORDS_PER_SENTENCE = 15;
const MAX_TRIES = 5;
const CANDIDATES = 4;
const PREPARING_MS = 2_000;

/** Bring back what the last action replaced; once more, and what it made is back. */
export function undo(): void {
  const old = past.peek();
  if (old) restore(old, now());
}

/** Put another text in the place of the draft; `undo` brings it back. */
export function replaceDraft(text: string, newWords: string[]): void {
  restore({ text, newWords, list: {} }, now());
}

function now(): Past {
  const { numWords, level } = brief.peek();
  return { text: draft.text.peek(), newWords: draft.newWords.peek(), list: { numWords, level } };
}

function restore(old: Past, instead: Past | null): void {
  batch(() => {
    past.value = instead;
    draft.edit(old.text);
    draft.newWords.value = old.newWords;
    change(old.list);
  });
}

/** Write a text by the brief, in the place of the one that is there. */
export function write(): Promise<void> {
  return run((signal) => put(requestOf(brief.peek(), [{ role: "user", content: brief.peek().prompt }]), signal));
}

/** Return the request that writes a text by a brief. */
export function requestOf(brief: Brief, messages: Message[], vocab: Vocab = authorVocabOf(brief)): ChatRequest {
  // A small model would end much earlier.
  const numSentences = Math.floor(brief.length / WORDS_PER_SENTENCE);
  const isLong = vocab.max_sentences === undefined && numSentences > 1;
  const request: ChatRequest = {
    messages,
    vocab: isLong ? { ...vocab, min_sentences: numSentences } : vocab,
    max_tokens: tokensOf(brief),
  };
  if (brief.quality === "better") request.best_of = CANDIDATES;
  return request;
}

function tokensOf({ length, lang }: Brief): number {
  const most = Math.ceil(length * (lang === "en" ? TOKENS_PER_ENGLISH_WORD : TOKENS_PER_WORD));
  // A service takes 1,024 unless it is set otherwise.
  return unspacedOf(lang) === null ? most : Math.max(most, Math.min(TOKENS_PER_UNSPACED_WORD * length, 1_000));
}

/**
 * Put what the service writes into the draft, between `head` and `tail`, and return it.
 *
 * The draft stays as it is until the first word comes.
 */
export async function put(request: ChatRequest, signal: AbortSignal, head = "", tail = ""): Promise<string> {
  const isWhole = !head && !tail;
  const before = now();
  let made = "";
  for await (const { text, vocab } of prepared(request.vocab, chat(request, signal))) {
    batch(() => {
      if (text) {
        if (!made) past.value = before;
        if (!made && isWhole) draft.newWords.value = [];
        made += text;
        answered.value = null;
        phase.value = "writing";
        draft.edit(head + made + tail);
      }
      if (vocab) {
        const words = (vocab.new_words ?? []).map(({ word }) => word);
        draft.newWords.value = [...new Set([...draft.newWords.peek(), ...words])];
        if (isWhole) answered.value = { vocab, text: made };
      }
    });
  }
  return made;
}

/** Characters that are rewritten at once: the service takes about 200 unlisted words. */
const MOST_REWRITTEN = 3_000;

/** Put the draft into the words of a list. Sentences are shown as they come, and the old text comes back if not all do. */
export async function putRewritten(vocab: Vocab, signal: AbortSignal): Promise<void> {
  await orAsBefore(async () => {
    const before = now();
    const parts = partsOf(before.text, MOST_REWRITTEN);
    let done = "";
    for (const [index, part] of parts.entries()) {
      const rest = parts.slice(index + 1).join("");
      let made = "";
      for await (const answer of prepared(vocab, rewrite(part, vocab, signal))) {
        made = "changes" in answer ? answer.text : made + answer.text;
        batch(() => {
          past.value = before;
          answered.value = null;
          phase.value = "writing";
          draft.edit(done + made + rest);
        });
      }
      done += made;
    }
  });
}

/** Do work of which half is worth nothing: if it fails or is stopped, the draft is as it was. */
export async function orAsBefore(work: () => Promise<void>): Promise<void> {
  const [before, older] = [now(), past.peek()];
  try {
    await work();
  } catch (error) {
    restore(before, older);
    phase.value = "waiting";
    throw error;
  }
}

const seenLists = new Set<string>();

/** Yield what a request answers, and say so where it waits for its list. */
export async function* prepared<Part>(vocab: Vocab, answer: AsyncIterable<Part>): AsyncGenerator<Part> {
  const list = JSON.stringify([vocab.lang, vocab.level, vocab.words]);
  const timer = setTimeout(() => (isPreparing.value = !seenLists.has(list)), PREPARING_MS);
  try {
    for await (const part of answer) {
      clearTimeout(timer);
      seenLists.add(list);
      isPreparing.value = false;
      yield part;
    }
  } finally {
    clearTimeout(timer);
    isPreparing.value = false;
  }
}

/** Do work of the model: one at a time, again while the service is busy, and until it is stopped. */
export async function run(work: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  phase.value = "waiting";
  await task.run(
    async (signal) => {
      for (let tries = 1; ; tries += 1) {
        try {
          await work(signal);
          return;
        } catch (error) {
          if (!(error instanceof ServiceError) || error.kind !== "busy" || tries >= MAX_TRIES) throw error;
          await wait(error.retryAfterS ?? 2, signal);
        }
      }
    },
    () => (phase.peek() === "writing" ? "Stopped." : "Stopped. The text is as it was."),
  );
  if (task.isOn.peek() || task.fault.peek()?.kind !== "offline") return;
  // The page's own notice says what is wrong, and goes when the service is back.
  const rest = phase.peek() === "writing" ? "What came until then is kept." : "The text is as it was.";
  task.message.value = `The connection broke. ${rest}`;
  status.value = "offline";
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
