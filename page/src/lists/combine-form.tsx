import { batch, computed, type Signal, signal } from "@preact/signals";
import { fetchWords } from "../api/client";
import { Task } from "../api/request";
import { Button, NumberField, Radios, Select, submitting, TextField } from "../parts/controls";
import { LanguageField, nameOfList } from "../parts/list-fields";
import { FaultNotice } from "../parts/notice";
import { brief } from "../state/brief";
import { freeName, keep, listNamed, MAX_LIST_WORDS, type MyList, myLists, numWords } from "../state/lists";
import { shown } from "./edit";

/** One of the writer's lists by name, or the first words of a language's. */
interface Choice {
  myList: string | null;
  lang: string;
  numWords: number;
}

const WAYS = { minus: "Words of the first list that the second has not", union: "Words of either list" };

const PAGE = 1_000;

const start: Choice = { myList: null, lang: brief.peek().lang, numWords: 1_000 };
const choices = [signal<Choice>(start), signal<Choice>(start)] as const;
const way = signal<keyof typeof WAYS>("minus");
const typedName = signal<string | null>(null);
const combining = new Task();

const name = computed(() => {
  const [first, second] = choices.map(
    ({ value: { myList, lang, numWords } }) => myList ?? `${nameOfList(lang)} ${numWords}`,
  );
  return typedName.value ?? `${first} ${way.value === "union" ? "and" : "without"} ${second}`;
});

/** Begin to make a list of two; the first of them is one that is shown. */
export function startCombining(list: MyList | undefined): void {
  batch(() => {
    const lang = list?.lang ?? brief.peek().lang;
    choices[0].value = { ...start, lang, myList: list?.name ?? null };
    choices[1].value = { ...start, lang };
    typedName.value = null;
    combining.fault.value = null;
    combining.message.value = "";
    shown.value = { kind: "combine" };
  });
}

async function combine(signal: AbortSignal): Promise<string | void> {
  const [first, second] = await Promise.all([wordsOf(choices[0].peek(), signal), wordsOf(choices[1].peek(), signal)]);
  const { lang } = choices[0].peek();
  const words = way.peek() === "union" ? union(first, second) : minus(first, second, lang);
  if (!words.length) return "No word is left: the second list has them all.";
  if (words.length > MAX_LIST_WORDS)
    return `That makes ${numWords(words.length)}; a list has at most ${numWords(MAX_LIST_WORDS)}.`;
  const list = { name: freeName(name.peek().trim()), lang, words };
  keep(list);
  shown.value = { kind: "list", name: list.name };
}

async function wordsOf({ myList, lang, numWords }: Choice, signal: AbortSignal): Promise<string[]> {
  const own = listNamed(myList ?? "");
  if (own) return own.words;
  const words: string[] = [];
  while (words.length < numWords) {
    const { data } = await fetchWords(lang, words.length, Math.min(PAGE, numWords - words.length), signal);
    if (!data.length) break;
    words.push(...data.map(({ word }) => word));
  }
  return words;
}

/** Two lists that become one. */
export function CombineForm() {
  return (
    <form onSubmit={submitting(() => combining.run(combine))}>
      <h2 tabIndex={-1}>A list of two lists</h2>
      <ChoiceFields choice={choices[0]} label="First list" />
      <Radios label="What to take" value={way.value} options={WAYS} onChange={(chosen) => (way.value = chosen)} />
      <ChoiceFields choice={choices[1]} label="Second list" />
      <TextField
        label="Name of the new list"
        required
        maxLength={100}
        value={name.value}
        onChange={(typed) => (typedName.value = typed)}
      />
      <FaultNotice fault={combining.fault.value} />
      <div role="alert">{combining.message.value && <p class="notice">{combining.message.value}</p>}</div>
      <Button
        label={combining.isOn.value ? "Fetching words…" : "Make the list"}
        type="submit"
        isMain
        disabled={combining.isOn.value}
      />
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
      <Select
        label="Of"
        value={myList ?? ""}
        options={[["", "A language"], ...myLists.value.map(({ name }) => [name, `My list: ${name}`] as const)]}
        onChange={(name) => {
          const own = listNamed(name);
          set(own ? { myList: own.name, lang: own.lang } : { myList: null });
        }}
      />
      {myList === null && (
        <>
          <LanguageField lang={lang} onChange={(lang) => set({ lang })} />
          <NumberField
            label="Its first words"
            value={numWords}
            least={1}
            most={MAX_LIST_WORDS}
            onChange={(given) => set({ numWords: given ?? numWords })}
          />
        </>
      )}
    </fieldset>
  );
}

/** Return the words of both lists: those of the first, then what the second has besides. */
export function union(first: readonly string[], second: readonly string[]): string[] {
  return [...new Set([...first, ...second])];
}

/**
 * Return the words of the first list that the second lacks.
 *
 * As in a check, a listed word counts in other capitals ("The" is "the"), and a word with capitals of its own does not
 * ("hund" is not "Hund").
 */
export function minus(first: readonly string[], second: readonly string[], lang: string): string[] {
  const lacking = new Set(second);
  return first.filter((word) => !lacking.has(word) && !lacking.has(lowered(word, lang)));
}

function lowered(word: string, lang: string): string {
  try {
    return word.toLocaleLowerCase(lang.replace("_", "-"));
  } catch {
    // A list of the service may be named anything.
    return word.toLowerCase();
  }
}
