import { batch, computed, signal } from "@preact/signals";
import { fetchText, rewrite } from "../api/client";
import { Task } from "../api/request";
import type { CheckOptions, RewrittenText } from "../api/types";
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

export const outcome = signal<RewrittenText | null>(null);
export const rewriting = new Task();
export const reading = new Task();

export function discard(): void {
  rewriting.stop();
  rewritten.edit("");
  outcome.value = null;
}

/** Put the source into the words of the list, in a text of its own. */
export function rewriteSource(): Promise<void> {
  discard();
  return rewriting.run(
    async (signal) => {
      for await (const part of rewrite(source.text.peek(), vocab.peek(), signal)) {
        batch(() => {
          if ("changes" in part) outcome.value = part;
          rewritten.edit("changes" in part ? part.text : rewritten.text.peek() + part.text);
        });
      }
    },
    () => (rewritten.text.peek() ? "Stopped. What came until then is kept." : ""),
  );
}

/** Put the text of a file into the place of the source. */
export function takeFile(file: File): Promise<void> {
  rewriting.fault.value = null;
  rewriting.message.value = "";
  return reading.run(async (signal) => {
    const text = await fetchText(file, signal);
    discard();
    source.edit(text);
  });
}
