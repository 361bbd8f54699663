import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { csvFile, download } from "../exports/files";
import { Button } from "../parts/controls";
import { nameOfList } from "../parts/list-fields";
import { show } from "../parts/tabs";
import { brief, change } from "../state/brief";
import { deleted, listNamed, type MyList, myLists, numWords, remove, undoRemove } from "../state/lists";
import { directionOf, tagOf } from "../text/language";
import { CombineForm, startCombining } from "./combine-form";
import { changeList, shown, startList } from "./edit";
import { ListForm } from "./list-form";

/** The writer's own lists. */
export function ListsTab() {
  const open = shown.value;
  const list = open.kind === "list" ? listNamed(open.name) : undefined;
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    // The button that led here is gone, and the focus with it.
    if (document.activeElement === document.body) main.current?.querySelector("h2")?.focus();
  }, [open]);
  return (
    <div class="columns lists">
      <nav class="brief" aria-label="My lists">
        <ul class="list-names">
          {myLists.value.map((each) => (
            <li key={each.name}>
              <button
                type="button"
                aria-current={each === list ? "true" : undefined}
                onClick={() => (shown.value = { kind: "list", name: each.name })}
              >
                <bdi>{each.name}</bdi> <span class="hint">{numWords(each.words.length)}</span>
              </button>
            </li>
          ))}
        </ul>
        <div class="buttons">
          <Button label="New list" onClick={startList} />
          <Button label="Make one of two" onClick={() => startCombining(list)} />
        </div>
        <Undo />
        <p class="hint">Your lists are kept in this browser only. Download those that you want to keep.</p>
      </nav>
      <main class="page" ref={main}>
        {open.kind === "combine" ? (
          <CombineForm />
        ) : list ? (
          <ListView list={list} />
        ) : (
          <ListForm before={open.kind === "form" ? open.before : null} />
        )}
      </main>
    </div>
  );
}

function Undo() {
  const undone = deleted.value;
  return (
    <div role="status">
      {undone && (
        <p class="notice">
          "{undone.list.name}" is deleted.{" "}
          <Button
            label="Undo"
            onClick={() => {
              undoRemove();
              shown.value = { kind: "list", name: myLists.value[undone.index]!.name };
            }}
          />
        </p>
      )}
    </div>
  );
}

/** Words that are drawn at once. */
const MOST_SHOWN = 200;

const sought = signal("");

const found = computed<{ total: number; words: { rank: number; word: string }[] }>(() => {
  const list = shown.value.kind === "list" && listNamed(shown.value.name);
  if (!list) return { total: 0, words: [] };
  const part = sought.value.trim().normalize("NFC").toLowerCase();
  const all = list.words.map((word, index) => ({ rank: index + 1, word }));
  const fitting = part ? all.filter(({ word }) => word.toLowerCase().includes(part)) : all;
  return { total: fitting.length, words: fitting.slice(0, MOST_SHOWN) };
});

/** A list's words, and what can be done with it. */
function ListView({ list }: { list: MyList }) {
  const { total, words } = found.value;
  return (
    <section aria-label={list.name}>
      <h2 tabIndex={-1}>{list.name}</h2>
      <p class="hint">
        {nameOfList(list.lang)}, {numWords(list.words.length)}
      </p>
      <div class="buttons">
        <Button
          label="Write with it"
          isMain
          onClick={() => {
            change({ lang: list.lang, level: "", myList: list.name });
            show("write");
          }}
        />
        <Button label="Change" onClick={() => changeList(list)} />
        <Button label="Download .txt" onClick={() => download(list.name, "txt", `${list.words.join("\n")}\n`)} />
        <Button
          label="Download .csv"
          onClick={() => download(list.name, "csv", csvFile([["word"], ...list.words.map((word) => [word])]))}
        />
        <Button label="Delete" onClick={() => deleteList(list.name)} />
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
