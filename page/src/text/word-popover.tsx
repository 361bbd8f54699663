import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { swap } from "../api/client";
import { isAborted, ServiceError } from "../api/errors";
import type { TextDocument } from "./document";
import { Offsets, partAround } from "./offsets";
import { besideWord } from "./place";
import { directionOf, tagOf } from "./language";
import { bandName, bandOf, isAllowed, isMissing, type Word, whyOf } from "./words";

/** A word of an editor, and where it is shown. */
export interface ChosenWord {
  word: Word;
  spelling: string;
  element: HTMLElement;
  /** A word under the pointer is left with it; one that was chosen by key takes the focus. */
  how: "hover" | "click" | "key";
}

/** What a word can be for the texts to come. */
export interface WordActions {
  neverUse: (spelling: string) => void;
  add: (spelling: string) => void;
}

interface Props {
  chosen: ChosenWord;
  document: TextDocument;
  canEdit: boolean;
  actions?: WordActions;
  /** Called when the writer begins to use it. */
  onPin: () => void;
  onClose: () => void;
}

/** What is known of a word, beside it, and what can be done about it. */
export function WordPopover({ chosen, document, canEdit, actions, onPin, onClose }: Props) {
  const { word, spelling, element, how } = chosen;
  const own = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => besideWord(own.current!, element), [element]);
  useEffect(() => {
    if (how === "key") (own.current!.querySelector("button") ?? own.current!).focus();
  }, []);

  function onKeyDown(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      onClose();
    } else if (event.key === "Tab") keepFocus(event, own.current!);
  }

  function done(act: (spelling: string) => void): void {
    act(spelling);
    onClose();
  }

  return (
    <div
      ref={own}
      class="popover"
      role="dialog"
      aria-label={`The word ${spelling}`}
      dir="ltr"
      lang="en"
      tabIndex={-1}
      onKeyDown={onKeyDown}
      onFocusIn={onPin}
    >
      <Facts word={word} spelling={spelling} lang={document.lang.value} />
      {word.nearest.length > 0 && (
        <Choices label="Listed words that are near">
          {word.nearest.map((near) => (
            <Choice
              key={near.word}
              document={document}
              word={word}
              by={near.word}
              canEdit={canEdit}
              onClose={onClose}
            />
          ))}
        </Choices>
      )}
      <Swap document={document} word={word} canEdit={canEdit} onClose={onClose}>
        {actions && word.reason !== "number" && word.reason !== "excluded" && (
          <button type="button" onClick={() => done(actions.neverUse)}>
            Never use
          </button>
        )}
        {actions && !isAllowed(word) && (
          <button type="button" onClick={() => done(actions.add)}>
            Add to my words
          </button>
        )}
      </Swap>
      {how !== "hover" && (
        <button type="button" class="close" aria-label="Close" onClick={onClose}>
          ×
        </button>
      )}
    </div>
  );
}

function Facts({ word, spelling, lang }: { word: Word; spelling: string; lang: string }) {
  const { rank, lemma } = word;
  const isFine = !isMissing(word);
  return (
    <>
      <p class="of-word">
        <bdi lang={tagOf(lang)} dir={directionOf(lang)}>
          {spelling}
        </bdi>{" "}
        <span class={isFine ? "is-fine" : "is-fault"}>
          <span aria-hidden="true">{isFine ? "✓" : "▲"}</span> {whyOf(word)}
        </span>
      </p>
      <dl>
        <dt>Rank</dt>
        <dd>
          {rank === null
            ? "none: the list of the language lacks it"
            : `${rank.toLocaleString("en")}, in ${bandName(bandOf(rank))}`}
        </dd>
        {word.reading && (
          <>
            <dt>Reading</dt>
            <dd>{word.reading}</dd>
          </>
        )}
        {lemma && (
          <>
            <dt>Lemma</dt>
            <dd>
              <bdi lang={tagOf(lang)}>{lemma}</bdi>
            </dd>
          </>
        )}
      </dl>
    </>
  );
}

function Choices({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div role="group" aria-label={label}>
      <p class="hint">{label}</p>
      <div class="buttons">{children}</div>
    </div>
  );
}

interface ChoiceProps {
  document: TextDocument;
  word: Word;
  by: string;
  canEdit: boolean;
  onClose: () => void;
}

function Choice({ document, word, by, canEdit, onClose }: ChoiceProps) {
  const lang = document.lang.value;
  return (
    <button
      type="button"
      lang={tagOf(lang)}
      dir={directionOf(lang)}
      disabled={!canEdit}
      onClick={() => {
        onClose();
        document.replace(word.start, word.end, by);
        document.asked.value = { start: word.start + by.length, end: word.start + by.length };
      }}
    >
      {by}
    </button>
  );
}

/** Characters around a word that are sent with it: the service reads no more, and takes no long text. */
const BEFORE = 1_500;
const BEHIND = 600;

interface SwapProps {
  document: TextDocument;
  word: Word;
  canEdit: boolean;
  onClose: () => void;
  /** Other buttons. */
  children: ComponentChildren;
}

/** A button that asks for other words, and those. */
function Swap({ document, word, canEdit, onClose, children }: SwapProps) {
  const found = useSignal<string[] | null>(null);
  const fault = useSignal("");
  const abort = useSignal<AbortController | null>(null);
  useEffect(() => () => abort.peek()?.abort(), []);

  async function look(): Promise<void> {
    const own = (abort.value = new AbortController());
    fault.value = "";
    const { from, part } = partAround(document.text.peek(), word, BEFORE, BEHIND);
    const offsets = new Offsets(part);
    try {
      const words = await swap(
        part,
        offsets.toPoints(word.start - from),
        offsets.toPoints(word.end - from),
        document.vocab.peek(),
        own.signal,
      );
      found.value = words.slice(0, MOST).map((each) => each.word);
    } catch (error) {
      if (isAborted(error)) return;
      if (!(error instanceof ServiceError)) throw error;
      fault.value = error.message;
    } finally {
      abort.value = null;
    }
  }

  return (
    <div aria-live="polite">
      {found.value && (
        <Choices label={found.value.length ? "Other words for it" : "The list has no other word for it."}>
          {found.value.map((by) => (
            <Choice key={by} document={document} word={word} by={by} canEdit={canEdit} onClose={onClose} />
          ))}
        </Choices>
      )}
      <div class="buttons">
        {canEdit && !found.value && (
          <button type="button" aria-disabled={!!abort.value} onClick={() => !abort.peek() && void look()}>
            {abort.value ? "Looking for other words…" : "Swap"}
          </button>
        )}
        {children}
      </div>
      {fault.value && <p class="is-fault">{fault.value}</p>}
    </div>
  );
}

const MOST = 8;

/** Keep the Tab key among the buttons of a popover. */
function keepFocus(event: KeyboardEvent, own: HTMLElement): void {
  const all = [...own.querySelectorAll<HTMLElement>("button:not(:disabled)")];
  const edge = event.shiftKey ? all[0] : all.at(-1);
  if (document.activeElement !== edge && document.activeElement !== own) return;
  event.preventDefault();
  (event.shiftKey ? all.at(-1) : all[0])?.focus();
}
