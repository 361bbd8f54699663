import { LanguageField } from "../parts/language-field";
import { WordsField } from "../parts/words-field";
import { brief, change, placeOfWords, wordsOfPlace } from "../state/brief";
import { status, vocabularies } from "../state/connection";
import { myLists } from "../state/lists";
import { draft, isWorking, write } from "./generate";

/** What is to be written, and in which words. */
export function BriefForm() {
  const { prompt, quality, length, newWords, maxSentenceWords, mustUse, anyForm } = brief.value;
  const isOff = isWorking.value || status.value !== "ready";
  return (
    <form
      class="brief"
      aria-label="Brief"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isOff) void write();
      }}
    >
      <label class="field">
        <span>What should it be about?</span>
        <textarea
          rows={3}
          required
          value={prompt}
          placeholder="A story about a dog who finds a map"
          onInput={(event) => change({ prompt: event.currentTarget.value })}
        />
      </label>
      <ListFields />
      <WordsField
        label="Names and other words that may come"
        hint="Anna, geranium"
        words={brief.value.added}
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
      <WordsField
        label="Words that must not come"
        words={brief.value.excluded}
        onChange={(excluded) => change({ excluded })}
      />
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
      <NumberField
        label="Length, in words"
        value={length}
        least={10}
        most={2_000}
        onChange={(length) => change({ length: length ?? 120 })}
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
      <div class="buttons">
        <button type="submit" class="primary" aria-disabled={isOff}>
          {draft.text.value.trim() ? "Write it anew" : "Write"}
        </button>
      </div>
    </form>
  );
}

/** Which list: a language and how many of its words, a level, or one of the writer's own. */
export function ListFields() {
  const { lang, level, myList, numWords } = brief.value;
  const levels = vocabularies.value.filter(
    ({ kind, languages }) => kind === "level" && (!languages.length || languages.includes(lang)),
  );
  const own = myLists.value.filter((list) => list.lang === lang);
  return (
    <>
      <LanguageField lang={lang} onChange={(lang) => change({ lang, level: "", myList: "" })} />
      <label class="field">
        <span>Words</span>
        <select
          value={myList ? `my:${myList}` : level ? `level:${level}` : "number"}
          onChange={(event) => {
            const [kind, name = ""] = event.currentTarget.value.split(/:(.*)/s);
            change({ level: kind === "level" ? name : "", myList: kind === "my" ? name : "" });
          }}
        >
          <option value="number">The most frequent ones</option>
          {levels.map(({ id }) => (
            <option key={id} value={`level:${id}`}>
              Level {id}
            </option>
          ))}
          {own.map(({ name }) => (
            <option key={name} value={`my:${name}`}>
              My list: {name}
            </option>
          ))}
        </select>
      </label>
      {!level && !myList && (
        <label class="field">
          <span>
            How many: <output>{numWords.toLocaleString("en")}</output>
          </span>
          <input
            type="range"
            min={0}
            max={100}
            value={placeOfWords(numWords)}
            aria-valuetext={`${numWords} words`}
            onInput={(event) => change({ numWords: wordsOfPlace(event.currentTarget.valueAsNumber) })}
          />
        </label>
      )}
    </>
  );
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

interface SwitchProps {
  label: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
}

export function Switch({ label, isOn, onChange }: SwitchProps) {
  return (
    <label class="switch">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} />
      {label}
    </label>
  );
}

interface NumberProps {
  label: string;
  value: number | null;
  least: number;
  most: number;
  isOptional?: boolean;
  onChange: (value: number | null) => void;
}

export function NumberField({ label, value, least, most, isOptional = false, onChange }: NumberProps) {
  return (
    <label class="field is-short">
      <span>{label}</span>
      <input
        type="number"
        min={least}
        max={most}
        required={!isOptional}
        value={value ?? ""}
        onInput={(event) => {
          const given = event.currentTarget.valueAsNumber;
          if (given >= least && given <= most) onChange(Math.round(given));
          else if (isOptional && event.currentTarget.value === "") onChange(null);
        }}
      />
    </label>
  );
}
