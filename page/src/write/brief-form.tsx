import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { check } from "../api/client";
import { LatestRequest } from "../api/request";
import type { PromptWord } from "../api/types";
import { Button, NumberField, Radios, submitting, Switch, WordsField } from "../parts/controls";
import { ListFields } from "../parts/list-fields";
import { brief, type Brief, change, toggled, vocabOf } from "../state/brief";
import { status } from "../state/connection";
import { PAUSE_MS } from "../text/document";
import { directionOf, tagOf } from "../text/language";
import { draft, isWorking, write } from "./generate";
import { LinkButton } from "./link";

/** What is to be written, and in which words. */
export function BriefForm() {
  const { prompt, length } = brief.value;
  const isOff = isWorking.value || status.value !== "ready";
  return (
    <form class="brief" aria-label="Brief" onSubmit={submitting(() => isOff || write())}>
      <label class="field">
        <span>What should it be about?</span>
        <textarea
          rows={2}
          required
          value={prompt}
          placeholder="A story about a dog who finds a map"
          onInput={(event) => change({ prompt: event.currentTarget.value })}
        />
      </label>
      <PromptWords />
      <ListFields />
      <div class="length-and-write">
        <NumberField
          label="Length, in words"
          value={length}
          least={10}
          most={2_000}
          onChange={(length) => change({ length: length ?? 120 })}
        />
        <Button
          label={draft.text.value.trim() ? "Write it anew" : "Write"}
          type="submit"
          isMain
          aria-disabled={isOff}
        />
      </div>
      <MoreSettings />
    </form>
  );
}

/** Of a prompt that the service reads. */
const MAX_CHARS = 4_000;

/** Words of the prompt that the list lacks: a click allows one with its forms, and another one no longer. */
function PromptWords() {
  const found = useSignal<readonly PromptWord[]>([]);
  const request = useMemo(() => new LatestRequest(), []);
  const { prompt, lang, added } = brief.value;
  const isRead = status.value === "ready" && !!prompt.trim() && prompt.length <= MAX_CHARS;
  // Without those that are allowed already, so that a click can take them back.
  const list = JSON.stringify(vocabOf(brief.value, []));
  useEffect(() => {
    if (!isRead) {
      found.value = [];
      return;
    }
    request.send(
      PAUSE_MS,
      (signal) => check(prompt, { ...JSON.parse(list), prompt_words: prompt }, [], signal),
      (report) => (found.value = report.prompt_words ?? []),
    );
    return () => request.cancel();
  }, [isRead, prompt, list]);
  // They are an offer: what is wrong with the list is told elsewhere.
  if (request.fault.value || !found.value.length) return null;
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

/** What is seldom set: folded away, with a line that says what is set there. */
function MoreSettings() {
  const { added, mustUse, excluded, anyForm, newWords, maxSentenceWords, quality } = brief.value;
  return (
    <details
      class="more"
      // The browser cannot show what is wrong in a field that it does not show.
      onInvalidCapture={(event) => (event.currentTarget.open = true)}
    >
      <summary>
        More settings <span class="hint">{summaryOf(brief.value)}</span>
      </summary>
      <WordsField
        label="Names and other words that may come"
        placeholder="Anna, geranium"
        value={added}
        onChange={(added) => change({ added })}
      />
      <WordsField
        label="Words that must come"
        placeholder="river, go"
        value={mustUse}
        onChange={(mustUse) => change({ mustUse })}
      />
      {mustUse.length > 0 && (
        <Switch label="In any form: went for go" value={anyForm} onChange={(anyForm) => change({ anyForm })} />
      )}
      <WordsField label="Words that must not come" value={excluded} onChange={(excluded) => change({ excluded })} />
      <Switch label="A few new words to learn" value={newWords} onChange={(newWords) => change({ newWords })} />
      {newWords && <NewWordFields />}
      <NumberField
        label="Words of a sentence, at most"
        value={maxSentenceWords}
        least={2}
        most={1_000}
        isOptional
        onChange={(maxSentenceWords) => change({ maxSentenceWords })}
      />
      <Radios
        label="Quality"
        value={quality}
        options={{ fast: "Fast", better: "Better, and slower" }}
        onChange={(quality) => change({ quality })}
      />
      <LinkButton />
    </details>
  );
}

/** Return what is set there, in one line. */
export function summaryOf({ added, mustUse, excluded, newWords, maxSentenceWords, quality }: Brief): string {
  return [
    quality,
    newWords && "new words",
    mustUse.length && `with ${mustUse.join(", ")}`,
    added.length && `also ${added.join(", ")}`,
    excluded.length && `without ${excluded.join(", ")}`,
    maxSentenceWords && `sentences of up to ${maxSentenceWords} words`,
  ]
    .filter(Boolean)
    .join("; ");
}

function NewWordFields() {
  const { newWordsFrom, newWordsPer100, numWords, level, myList } = brief.value;
  if (level || myList) return <p class="hint">New words need a number of words, and no level or list of your own.</p>;
  return (
    <div class="indented">
      <NumberField
        label="Among the most frequent"
        value={newWordsFrom}
        least={1}
        most={100_000}
        onChange={(value) => change({ newWordsFrom: value ?? 3_000 })}
      />
      <NumberField
        label="In 100 words, at most"
        value={newWordsPer100}
        least={1}
        most={100}
        onChange={(value) => change({ newWordsPer100: value ?? 2 })}
      />
      {newWordsFrom <= numWords && (
        <p class="hint">All of those are in the list already: choose more than {numWords.toLocaleString("en")}.</p>
      )}
    </div>
  );
}
