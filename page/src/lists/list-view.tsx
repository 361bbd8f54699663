import { computed, signal } from "@preact/signals";
import { download, fileName } from "../exports/download";
import { nameOfList } from "../parts/language-field";
import { brief, change } from "../state/brief";
import { type MyList, myLists, numWords, remove } from "../state/lists";
import { show } from "../state/tab";
import { directionOf, tagOf } from "../text/language";
import { csvFile } from "./csv";
import { changeList, shown, startList } from "./edit";

/** Words that are drawn at once. */
const MOST_SHOWN = 200;

const sought = signal("");

interface Found {
  rank: number;
  word: string;
}

const found = computed<{ total: number; words: Found[] }>(() => {
  const open = shown.value;
  const list = open.kind === "list" && myLists.value.find(({ name }) => name === open.name);
  if (!list) return { total: 0, words: [] };
  const part = sought.value.trim().normalize("NFC").toLowerCase();
  const all = list.words.map((word, index) => ({ rank: index + 1, word }));
  const fitting = part ? all.filter(({ word }) => word.toLowerCase().includes(part)) : all;
  return { total: fitting.length, words: fitting.slice(0, MOST_SHOWN) };
});

/** A list's words, and what can be done with it. */
export function ListView({ list }: { list: MyList }) {
  const { total, words } = found.value;
  return (
    <section aria-label={list.name}>
      <h2 tabIndex={-1}>{list.name}</h2>
      <p class="hint">
        {nameOfList(list.lang)}, {numWords(list.words.length)}
      </p>
      <div class="buttons">
        <button
          type="button"
          class="primary"
          onClick={() => {
            change({ lang: list.lang, level: "", myList: list.name });
            show("write");
          }}
        >
          Write with it
        </button>
        <button type="button" onClick={() => changeList(list)}>
          Change
        </button>
        <button type="button" onClick={() => download(fileName(list.name, "txt"), `${list.words.join("\n")}\n`)}>
          Download .txt
        </button>
        <button
          type="button"
          onClick={() =>
            download(
              fileName(list.name, "csv"),
              csvFile(
                ["word"],
                list.words.map((word) => [word]),
              ),
              "text/csv",
            )
          }
        >
          Download .csv
        </button>
        <button type="button" onClick={() => deleteList(list.name)}>
          Delete
        </button>
      </div>
      <label class="field search-field">
        <span>Find a word</span>
        <input type="search" value={sought.value} onInput={(event) => (sought.value = event.currentTarget.value)} />
      </label>
      <p class="hint" role="status">
        {total > MOST_SHOWN ? `The first ${MOST_SHOWN} of ${numWords(total)}` : numWords(total)}
      </p>
      <ol class="list-words" dir={directionOf(list.lang)} lang={tagOf(list.lang)}>
        {words.map(({ rank, word }) => (
          <li key={rank} value={rank}>
            {word}
          </li>
        ))}
      </ol>
    </section>
  );
}

function deleteList(name: string): void {
  remove(name);
  if (brief.peek().myList === name) change({ myList: "" });
  const [next] = myLists.peek();
  if (next) shown.value = { kind: "list", name: next.name };
  else startList();
}
