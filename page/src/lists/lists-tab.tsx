import { useEffect, useRef } from "preact/hooks";
import { deleted, listNamed, myLists, numWords, undoRemove } from "../state/lists";
import { CombineForm, startCombining } from "./combine-form";
import { shown, startList } from "./edit";
import { ListForm } from "./list-form";
import { ListView } from "./list-view";

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
          <button type="button" onClick={startList}>
            New list
          </button>
          <button type="button" onClick={() => startCombining(list)}>
            Make one of two
          </button>
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
          <button
            type="button"
            onClick={() => {
              undoRemove();
              shown.value = { kind: "list", name: myLists.value[undone.index]!.name };
            }}
          >
            Undo
          </button>
        </p>
      )}
    </div>
  );
}
