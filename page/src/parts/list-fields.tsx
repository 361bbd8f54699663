import { useSignal } from "@preact/signals";
import { useEffect, useId, useMemo } from "preact/hooks";
import { check } from "../api/client";
import { LatestRequest } from "../api/request";
import { brief, change, placeOfWords, wordsOfPlace } from "../state/brief";
import { levelsOf, vocabularies } from "../state/connection";
import { myLists, numWords } from "../state/lists";
import { type Unspaced, unspacedOf } from "../text/language";
import { Select } from "./controls";

/** Which list: a language and how many of its words, a level, or one of the writer's own. */
export function ListFields() {
  const { lang, level, myList, numWords } = brief.value;
  const own = myLists.value.filter((list) => list.lang === lang);
  return (
    <div class="list-fields">
      <LanguageField lang={lang} onChange={(lang) => change({ lang, level: "", myList: "" })} />
      <Select
        label="Words"
        value={myList ? `my:${myList}` : level ? `level:${level}` : "number"}
        options={[
          ["number", "The most frequent"],
          ...levelsOf(lang).map((id) => [`level:${id}`, `Level ${id}`] as const),
          ...own.map(({ name }) => [`my:${name}`, `My list: ${name}`] as const),
        ]}
        onChange={(chosen) => {
          const [kind, name = ""] = chosen.split(/:(.*)/s);
          change({ level: kind === "level" ? name : "", myList: kind === "my" ? name : "" });
        }}
      />
      {!level && !myList && (
        <SizeField label="How many:" isWide value={numWords} onChange={(numWords) => change({ numWords })} />
      )}
    </div>
  );
}

interface SizeProps {
  label: string;
  value: number;
  isWide?: boolean;
  onChange: (numWords: number) => void;
}

/** A slider for the size of a list. */
export function SizeField({ label, value, isWide = false, onChange }: SizeProps) {
  return (
    <label class={isWide ? "field is-wide" : "field"}>
      <span>
        {label} <output>{value.toLocaleString("en")}</output>
      </span>
      <input
        type="range"
        min={0}
        max={100}
        value={placeOfWords(value)}
        aria-valuetext={numWords(value)}
        onInput={(event) => onChange(wordsOfPlace(event.currentTarget.valueAsNumber))}
      />
    </label>
  );
}

const NAMES = new Intl.DisplayNames(["en"], { type: "language" });

/** Those of languages without spaces have their own name beside the English one. */
const OWN_NAMES: Readonly<Record<Unspaced, string>> = {
  zh: "Chinese, simplified: 中文（简体）",
  "zh-Hant": "Chinese, traditional: 中文（繁體）",
  ja: "Japanese: 日本語",
  th: "Thai: ไทย",
};

/** Return a list's name as people say it: "en" is English. */
export function nameOfList(id: string): string {
  const unspaced = unspacedOf(id);
  if (unspaced === id) return OWN_NAMES[unspaced];
  try {
    const name = NAMES.of(id.replace("_", "-"));
    return name && name !== id ? name : id;
  } catch {
    return id;
  }
}

const OTHER = "…";

/** Which of the service's lists: a language, a file of its own, or any code; of one that it lacks it says why. */
export function LanguageField({ lang, onChange }: { lang: string; onChange: (lang: string) => void }) {
  const isOther = useSignal(false);
  const ids = vocabularies.value.filter(({ kind }) => kind !== "level").map(({ id }) => id);
  const names = (ids.includes(lang) ? ids : [lang, ...ids]).map((id) => [id, nameOfList(id)] as const);
  function choose(id: string): void {
    isOther.value = id === OTHER;
    if (id !== OTHER) onChange(id);
  }
  return (
    <>
      <Select
        label="Language"
        value={isOther.value ? OTHER : lang}
        options={[...names.sort(([, one], [, other]) => one.localeCompare(other)), [OTHER, "Other…"]]}
        onChange={choose}
      />
      {isOther.value && <OtherLanguage onKnown={choose} />}
    </>
  );
}

const PAUSE_MS = 500;

function OtherLanguage({ onKnown }: { onKnown: (code: string) => void }) {
  const id = useId();
  const request = useMemo(() => new LatestRequest(), []);
  useEffect(() => () => request.cancel(), []);
  const fault = request.fault.value;
  return (
    <div class="field">
      <label for={id}>Code of the language</label>
      <input
        id={id}
        type="text"
        placeholder="eo"
        autocapitalize="off"
        spellcheck={false}
        aria-invalid={!!fault}
        aria-describedby={`${id}-fault`}
        onInput={(event) => {
          request.cancel();
          const code = event.currentTarget.value.trim();
          const ask = (signal: AbortSignal) => check("", { lang: code, n_words: 1_000 }, [], signal);
          if (code.length > 1) request.send(PAUSE_MS, ask, () => onKnown(code));
        }}
        // It stands in a form: Enter is not to write a text.
        onKeyDown={(event) => event.key === "Enter" && event.preventDefault()}
      />
      <span id={`${id}-fault`} class="is-fault" role="alert">
        {fault?.message}
      </span>
    </div>
  );
}
