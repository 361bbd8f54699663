import { brief, change, placeOfWords, wordsOfPlace } from "../state/brief";
import { vocabularies } from "../state/connection";
import { myLists } from "../state/lists";
import { LanguageField } from "./language-field";

/** Which list: a language and how many of its words, a level, or one of the writer's own. */
export function ListFields() {
  const { lang, level, myList, numWords } = brief.value;
  const levels = vocabularies.value.filter(
    ({ kind, languages }) => kind === "level" && (!languages.length || languages.includes(lang)),
  );
  const own = myLists.value.filter((list) => list.lang === lang);
  return (
    <div class="list-fields">
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
          <option value="number">The most frequent</option>
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
        <label class="field is-wide">
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
    </div>
  );
}
