import { batch, computed, type Signal, signal } from "@preact/signals";
import { fetchWords } from "../api/client";
import { ServiceError } from "../api/errors";
import { LanguageField, nameOfList } from "../parts/language-field";
import { FaultNotice } from "../parts/notice";
import { brief } from "../state/brief";
import { freeName, keep, MAX_LIST_WORDS, type MyList, myLists, numWords } from "../state/lists";
import { minus, union } from "./combine";
import { shown } from "./edit";

/** One of the writer's lists by name, or the first words of a language's. */
interface Choice {
  myList: string | null;
  lang: string;
  numWords: number;
}

type Way = "union" | "minus";

const PAGE = 1_000;

const start: Choice = { myList: null, lang: brief.peek().lang, numWords: 1_000 };
const choices = [signal<Choice>(start), signal<Choice>(start)] as const;
const way = signal<Way>("minus");
const typedName = signal<string | null>(null);
const isFetching = signal(false);
const fault = signal<ServiceError | null>(null);
const message = signal("");

const name = computed(() => {
  const [first, second] = choices.map((choice) => nameOf(choice.value));
  return typedName.value ?? `${first} ${way.value === "union" ? "and" : "without"} ${second}`;
});

function nameOf({ myList, lang, numWords }: Choice): string {
  return myList ?? `${nameOfList(lang)} ${numWords}`;
}

/** Begin to make a list of two; the first of them is one that is shown. */
export function startCombining(list: MyList | undefined): void {
  batch(() => {
    const lang = list?.lang ?? brief.peek().lang;
    choices[0].value = { ...start, lang, myList: list?.name ?? null };
    choices[1].value = { ...start, lang };
    typedName.value = null;
    fault.value = null;
    message.value = "";
    shown.value = { kind: "combine" };
  });
}

async function combine(): Promise<void> {
  batch(() => {
    isFetching.value = true;
    fault.value = null;
    message.value = "";
  });
  try {
    const [first, second] = await Promise.all([wordsOf(choices[0].peek()), wordsOf(choices[1].peek())]);
    const { lang } = choices[0].peek();
    const words = way.peek() === "union" ? union(first, second) : minus(first, second, lang);
    if (!words.length) message.value = "No word is left: the second list has them all.";
    else if (words.length > MAX_LIST_WORDS)
      message.value = `That makes ${numWords(words.length)}; a list has at most ${numWords(MAX_LIST_WORDS)}.`;
    else {
      const list = { name: freeName(name.peek().trim()), lang, words };
      keep(list);
      shown.value = { kind: "list", name: list.name };
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    fault.value = error;
  } finally {
    isFetching.value = false;
  }
}

async function wordsOf({ myList, lang, numWords }: Choice): Promise<string[]> {
  const own = myLists.peek().find((list) => list.name === myList);
  if (own) return own.words;
  const words: string[] = [];
  while (words.length < numWords) {
    const { data } = await fetchWords(lang, { offset: words.length, limit: Math.min(PAGE, numWords - words.length) });
    if (!data.length) break;
    words.push(...data.map(({ word }) => word));
  }
  return words;
}

/** Two lists that become one. */
export function CombineForm() {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void combine();
      }}
    >
      <h2 tabIndex={-1}>A list of two lists</h2>
      <ChoiceFields choice={choices[0]} label="First list" />
      <fieldset class="choices">
        <legend>What to take</legend>
        <label>
          <input type="radio" name="way" checked={way.value === "minus"} onChange={() => (way.value = "minus")} />
          Words of the first list that the second has not
        </label>
        <label>
          <input type="radio" name="way" checked={way.value === "union"} onChange={() => (way.value = "union")} />
          Words of either list
        </label>
      </fieldset>
      <ChoiceFields choice={choices[1]} label="Second list" />
      <label class="field">
        <span>Name of the new list</span>
        <input
          type="text"
          required
          maxLength={100}
          value={name.value}
          onInput={(event) => (typedName.value = event.currentTarget.value)}
        />
      </label>
      <FaultNotice fault={fault.value} />
      <div role="alert">{message.value && <p class="notice">{message.value}</p>}</div>
      <button type="submit" class="primary" disabled={isFetching.value}>
        {isFetching.value ? "Fetching words…" : "Make the list"}
      </button>
    </form>
  );
}

function ChoiceFields({ choice, label }: { choice: Signal<Choice>; label: string }) {
  const { myList, lang, numWords } = choice.value;
  const set = (members: Partial<Choice>): void => {
    choice.value = { ...choice.value, ...members };
  };
  return (
    <fieldset class="choice-of-list">
      <legend>{label}</legend>
      <label class="field">
        <span>Of</span>
        <select
          value={myList ?? ""}
          onChange={(event) => {
            const own = myLists.value.find((list) => list.name === event.currentTarget.value);
            set(own ? { myList: own.name, lang: own.lang } : { myList: null });
          }}
        >
          <option value="">A language</option>
          {myLists.value.map(({ name }) => (
            <option key={name} value={name}>
              My list: {name}
            </option>
          ))}
        </select>
      </label>
      {myList === null && (
        <>
          <LanguageField lang={lang} onChange={(lang) => set({ lang })} />
          <label class="field is-short">
            <span>Its first words</span>
            <input
              type="number"
              required
              min={1}
              max={MAX_LIST_WORDS}
              value={numWords}
              onInput={(event) => set({ numWords: Math.round(event.currentTarget.valueAsNumber) || 0 })}
            />
          </label>
        </>
      )}
    </fieldset>
  );
}
