import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { swap } from "../api/client";
import { Task } from "../api/request";
import type { NearestWord, OtherWords } from "../api/types";
import { Button } from "../parts/controls";
import type { TextDocument } from "./document";
import { directionOf, tagOf } from "./language";
import { bandName, bandOf, isAllowed, isMissing, Offsets, partAround, WHY, type Word } from "./words";

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
  const place = { document, word, canEdit, onClose };
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
      {word.nearest.length > 0 && <Choices label="Listed words that are near" words={word.nearest} {...place} />}
      <Swap {...place}>
        {actions && word.reason !== "number" && word.reason !== "excluded" && (
          <Button label="Never use" onClick={() => done(actions.neverUse)} />
        )}
        {actions && !isAllowed(word) && <Button label="Add to my words" onClick={() => done(actions.add)} />}
      </Swap>
      {how !== "hover" && <Button label="×" class="close" aria-label="Close" onClick={onClose} />}
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
          <span aria-hidden="true">{isFine ? "✓" : "▲"}</span> {WHY[word.reason]}
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

interface Place {
  document: TextDocument;
  word: Word;
  canEdit: boolean;
  onClose: () => void;
}

/** Words that can take the place of one. */
function Choices({ label, words, document, word, canEdit, onClose }: Place & { label: string; words: NearestWord[] }) {
  const lang = document.lang.value;
  function choose(by: string): void {
    onClose();
    document.replace(word.start, word.end, by);
    document.asked.value = { start: word.start + by.length, end: word.start + by.length };
  }
  return (
    <div role="group" aria-label={label}>
      <p class="hint">{label}</p>
      <div class="buttons">
        {words.map(({ word: by }) => (
          <Button
            key={by}
            label={by}
            lang={tagOf(lang)}
            dir={directionOf(lang)}
            disabled={!canEdit}
            onClick={() => choose(by)}
          />
        ))}
      </div>
    </div>
  );
}

/** Characters around a word that are sent with it: the service reads no more, and takes no long text. */
const BEFORE = 1_500;
const BEHIND = 600;

/** A button that asks for other words, and those; beside it other buttons. */
function Swap({ children, ...place }: Place & { children: ComponentChildren }) {
  const { document, word, canEdit } = place;
  const found = useSignal<OtherWords["data"] | null>(null);
  const looking = useMemo(() => new Task(), []);
  useEffect(() => () => looking.stop(), []);

  async function look(signal: AbortSignal): Promise<void> {
    const { from, part } = partAround(document.text.peek(), word, BEFORE, BEHIND);
    const offsets = new Offsets(part);
    const [start, end] = [offsets.toPoints(word.start - from), offsets.toPoints(word.end - from)];
    const { data } = await swap(part, start, end, document.vocab.peek(), signal);
    found.value = data.slice(0, MOST);
  }

  return (
    <div aria-live="polite">
      {found.value && (
        <Choices
          label={found.value.length ? "Other words for it" : "The list has no other word for it."}
          words={found.value}
          {...place}
        />
      )}
      <div class="buttons">
        {canEdit && !found.value && (
          <Button
            label={looking.isOn.value ? "Looking for other words…" : "Swap"}
            aria-disabled={looking.isOn.value}
            onClick={() => !looking.isOn.peek() && void looking.run(look)}
          />
        )}
        {children}
      </div>
      {looking.fault.value && <p class="is-fault">{looking.fault.value.message}</p>}
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

const MARGIN = 8;
const GAP = 6;

/**
 * Keep a fixed element beside a word and inside the window: below it, or above it where there is more room.
 *
 * Return what ends that.
 */
function besideWord(own: HTMLElement, word: HTMLElement): () => void {
  function place(): void {
    // A word that is broken into two lines has two.
    const at = word.getClientRects()[0];
    if (!at) return;
    const window = visibleWindow();
    const [above, below] = [at.top - window.top - GAP - MARGIN, window.bottom - at.bottom - GAP - MARGIN];
    const isBelow = below >= own.scrollHeight || below >= above;
    own.style.maxHeight = `${Math.max(isBelow ? below : above, 0)}px`;
    own.style.maxWidth = `min(22rem, ${window.right - window.left - 2 * MARGIN}px)`;
    const { width, height } = own.getBoundingClientRect();
    const isRightToLeft = getComputedStyle(word).direction === "rtl";
    const wanted = isRightToLeft ? at.right - width : at.left;
    own.style.left = `${Math.max(window.left + MARGIN, Math.min(wanted, window.right - MARGIN - width))}px`;
    own.style.top = `${isBelow ? at.bottom + GAP : at.top - GAP - height}px`;
  }
  const resized = new ResizeObserver(place);
  resized.observe(own);
  addEventListener("scroll", place, { capture: true, passive: true });
  addEventListener("resize", place);
  visualViewport?.addEventListener("resize", place);
  place();
  return () => {
    resized.disconnect();
    removeEventListener("scroll", place, { capture: true });
    removeEventListener("resize", place);
    visualViewport?.removeEventListener("resize", place);
  };
}

/** What is seen of the page: less than the window where a keyboard lies on it. */
function visibleWindow(): { left: number; right: number; top: number; bottom: number } {
  const view = visualViewport;
  const [left, top] = [view?.offsetLeft ?? 0, view?.offsetTop ?? 0];
  const root = document.documentElement;
  return {
    left,
    top,
    right: left + (view?.width ?? root.clientWidth),
    bottom: top + (view?.height ?? root.clientHeight),
  };
}
