import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { check } from "../api/client";
import type { PromptWord } from "../api/types";
import { brief, change, toggled, vocabOf } from "../state/brief";
import { status } from "../state/connection";
import { PAUSE_MS } from "../text/document";
import { directionOf, tagOf } from "../text/language";

/** Of a prompt that the service reads. */
const MAX_CHARS = 4_000;

/** Words of the prompt that the list lacks: a click allows one with its forms, and another one no longer. */
export function PromptWords() {
  const found = useSignal<readonly PromptWord[]>([]);
  const { prompt, lang, added } = brief.value;
  const isRead = status.value === "ready" && !!prompt.trim() && prompt.length <= MAX_CHARS;
  // Without those that are allowed already, so that a click can take them back.
  const list = JSON.stringify(vocabOf(brief.value, []));
  useEffect(() => {
    if (!isRead) {
      found.value = [];
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      check(prompt, { ...JSON.parse(list), prompt_words: prompt }, [], abort.signal).then(
        (report) => (found.value = report.prompt_words ?? []),
        // They are an offer: what is wrong with the list is told elsewhere.
        () => abort.signal.aborted || (found.value = []),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [isRead, prompt, list]);
  if (!found.value.length) return null;
  return (
    <div class="prompt-words" role="group" aria-label="Words of the brief that are not in the list">
      <span class="hint">Not in the list. Allow:</span>
      {found.value.map((one) => (
        <button
          key={one.word}
          type="button"
          title={[one.word, ...one.forms].join(", ")}
          aria-pressed={added.includes(one.word)}
          onClick={() => change({ added: toggled(brief.peek().added, one) })}
        >
          <span lang={tagOf(lang)} dir={directionOf(lang)}>
            {one.word}
          </span>{" "}
          (rank {one.rank.toLocaleString("en")})
        </button>
      ))}
    </div>
  );
}
