import { LinkButton } from "../exports/link-dialog";
import { NumberField, Switch } from "../parts/fields";
import { WordsField } from "../parts/words-field";
import { type Brief, brief, change } from "../state/brief";

/** What is seldom set: folded away, with a line that says what is set there. */
export function MoreSettings() {
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
        hint="Anna, geranium"
        words={added}
        onChange={(added) => change({ added })}
      />
      <WordsField
        label="Words that must come"
        hint="river, go"
        words={mustUse}
        onChange={(mustUse) => change({ mustUse })}
      />
      {mustUse.length > 0 && (
        <Switch label="In any form: went for go" isOn={anyForm} onChange={(anyForm) => change({ anyForm })} />
      )}
      <WordsField label="Words that must not come" words={excluded} onChange={(excluded) => change({ excluded })} />
      <Switch label="A few new words to learn" isOn={newWords} onChange={(newWords) => change({ newWords })} />
      {newWords && <NewWordFields />}
      <NumberField
        label="Words of a sentence, at most"
        value={maxSentenceWords}
        least={2}
        most={1_000}
        isOptional
        onChange={(maxSentenceWords) => change({ maxSentenceWords })}
      />
      <fieldset class="choices">
        <legend>Quality</legend>
        {(["fast", "better"] as const).map((name) => (
          <label key={name}>
            <input type="radio" name="quality" checked={quality === name} onChange={() => change({ quality: name })} />
            {name === "fast" ? "Fast" : "Better, and slower"}
          </label>
        ))}
      </fieldset>
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
