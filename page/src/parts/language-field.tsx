import { useSignal } from "@preact/signals";
import { useEffect, useId, useMemo } from "preact/hooks";
import { check } from "../api/client";
import { LatestRequest } from "../api/latest-request";
import { vocabularies } from "../state/connection";
import { type Unspaced, unspacedOf } from "../text/language";

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

interface Props {
  lang: string;
  onChange: (lang: string) => void;
  label?: string;
}

const OTHER = "…";

/** Which of the service's lists: a language, a file of its own, or any code; of one that it lacks it says why. */
export function LanguageField({ lang, onChange, label = "Language" }: Props) {
  const isOther = useSignal(false);
  const ids = vocabularies.value.filter(({ kind }) => kind !== "level").map(({ id }) => id);
  function choose(id: string): void {
    isOther.value = id === OTHER;
    if (id !== OTHER) onChange(id);
  }
  return (
    <>
      <label class="field">
        <span>{label}</span>
        <select value={isOther.value ? OTHER : lang} onChange={(event) => choose(event.currentTarget.value)}>
          {(ids.includes(lang) ? ids : [lang, ...ids])
            .map((id) => ({ id, name: nameOfList(id) }))
            .sort((one, other) => one.name.localeCompare(other.name))
            .map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          <option value={OTHER}>Other…</option>
        </select>
      </label>
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
