import { batch, computed, signal } from "@preact/signals";
import { fetchText, rewrite } from "../api/client";
import { isAborted, ServiceError } from "../api/errors";
import type { CheckOptions, Rewritten } from "../api/types";
import { brief, lang, vocabOf } from "../state/brief";
import { vocabularies } from "../state/connection";
import { kept } from "../state/storage";
import { TextDocument } from "../text/document";

const vocab = computed(() => vocabOf(brief.value));

/** What a check is to do besides, where the language allows it. */
export const settings = kept("checks", { names: false, inflected: false });

/** Whether the language allows it. */
export const able = computed(() => vocabularies.value.find(({ id }) => id === lang.value));

const options = computed<CheckOptions>(() => ({
  sentences: true,
  ...(settings.value.names && able.value?.names && { names: "keep" }),
  ...(settings.value.inflected && able.value?.inflected && { inflected: true }),
}));

/** The text of the Check tab. */
export const source = new TextDocument("source", vocab, lang, options);
/** The same in the words of the list. */
export const rewritten = new TextDocument("rewritten", vocab, lang, options);

export const outcome = signal<Rewritten | null>(null);
export const isRewriting = signal(false);
export const isReading = signal(false);
export const fault = signal<ServiceError | null>(null);
export const message = signal("");

let abort: AbortController | null = null;

export function stop(): void {
  abort?.abort();
}

export function discard(): void {
  stop();
  rewritten.edit("");
  outcome.value = null;
}

/** Put the source into the words of the list, in a text of its own. */
export async function rewriteSource(): Promise<void> {
  discard();
  begin(isRewriting);
  const own = (abort = new AbortController());
  try {
    for await (const part of rewrite(source.text.peek(), vocab.peek(), own.signal)) {
      batch(() => {
        if (typeof part !== "string") outcome.value = part;
        rewritten.edit(typeof part === "string" ? rewritten.text.peek() + part : part.text);
      });
    }
  } catch (error) {
    if (isAborted(error)) message.value = rewritten.text.peek() ? "Stopped. What came until then is kept." : "";
    else if (error instanceof ServiceError) fault.value = error;
    else throw error;
  } finally {
    if (abort === own) isRewriting.value = false;
  }
}

/** Put the text of a file into the place of the source. */
export async function takeFile(file: File): Promise<void> {
  begin(isReading);
  try {
    const text = await fetchText(file);
    discard();
    source.edit(text);
  } catch (error) {
    if (error instanceof ServiceError) fault.value = error;
    else throw error;
  } finally {
    isReading.value = false;
  }
}

function begin(what: typeof isReading): void {
  batch(() => {
    what.value = true;
    fault.value = null;
    message.value = "";
  });
}
