import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { TextDocument } from "./document";
import { directionOf, tagOf } from "./language";
import { elementAt, Line, LONG, placeIn, startOf, whenDrawn } from "./lines";
import { type ChosenWord, type WordActions, WordPopover } from "./word-popover";
import { differenceOf, type Drawn, drawn, paragraphsOf, type Word, wordAt } from "./words";

interface Props {
  document: TextDocument;
  label: string;
  placeholder?: string;
  isReadOnly?: boolean;
  /** What can be done with a word besides swapping it. */
  actions?: WordActions;
}

const HOVER_MS = 250;

/**
 * A text whose words are coloured by band, and that can be edited.
 *
 * The words lie behind a text area of the same shape, whose letters are transparent: typing, undo and input methods
 * are the browser's. Escape leads from the text to its words, where arrows move by word and Enter chooses one.
 */
export function Editor({ document, label, placeholder, isReadOnly = false, actions }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const isTyping = useRef(false);
  /** The word that the Tab key comes to. */
  const current = useSignal(0);
  const chosen = useSignal<ChosenWord | null>(null);
  const text = document.text.value;
  const words = document.words.value;
  const isHeld = document.isHeld.value;
  const direction = directionOf(document.lang.value);
  const lines = useLines(text, words);
  const tabbed = words[Math.min(current.value, words.length - 1)]?.start ?? -1;

  useEffect(() => () => clearTimeout(timer.current), []);
  useLayoutEffect(() => {
    close();
    const field = area.current!;
    if (isHeld || field.value === text) return;
    isTyping.current = true;
    if (isReadOnly || !field.value) field.value = text;
    else typeInto(field, text);
    isTyping.current = false;
  }, [text, isHeld]);
  useCaret(document, area, layer);

  /** Return which word an element shows; -1 for none. */
  const indexOf = (element: HTMLElement): number => {
    const start = startOf(layer.current!, document.text.peek(), element);
    return document.words.peek().findIndex((word) => word.start === start);
  };

  function close(): void {
    clearTimeout(timer.current);
    chosen.value = null;
  }

  function choose(element: HTMLElement | undefined, how: ChosenWord["how"]): void {
    const word = element && document.words.peek()[indexOf(element)];
    chosen.value =
      element && word ? { word, spelling: document.text.peek().slice(word.start, word.end), element, how } : null;
  }

  function focusWord(index: number): void {
    const all = document.words.peek();
    const within = Math.max(0, Math.min(index, all.length - 1));
    const word = all[within];
    current.value = within;
    close();
    if (word)
      whenDrawn(
        () => elementAt(layer.current!, document.text.peek(), word.start),
        (element) => element.focus(),
      );
  }

  function onPointerMove(event: PointerEvent): void {
    if (event.pointerType === "touch" || (chosen.value && chosen.value.how !== "hover")) return;
    clearTimeout(timer.current);
    if ((event.target as Element).closest(".popover")) return;
    const over = wordUnder(event);
    if (over === chosen.value?.element) return;
    timer.current = setTimeout(() => choose(over, "hover"), HOVER_MS);
  }

  function onPointerLeave(): void {
    clearTimeout(timer.current);
    if (chosen.value?.how === "hover") timer.current = setTimeout(close, HOVER_MS);
  }

  function onKeyOfText(event: KeyboardEvent): void {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault();
    if (chosen.value) {
      close();
      return;
    }
    const place = area.current!.selectionStart;
    const all = document.words.peek();
    const word = wordAt(all, place) ?? all.find((each) => each.start >= place) ?? all.at(-1);
    if (word) focusWord(all.indexOf(word));
  }

  function onKeyOfWord(event: KeyboardEvent): void {
    const forward = direction === "rtl" ? -1 : 1;
    const steps = {
      ArrowRight: forward,
      ArrowLeft: -forward,
      ArrowDown: 1,
      ArrowUp: -1,
      Home: -Infinity,
      End: Infinity,
    };
    const element = event.target as HTMLElement;
    const index = indexOf(element);
    if (index < 0) return;
    if (event.key in steps) focusWord(index + steps[event.key as keyof typeof steps]);
    else if (event.key === "Enter" || event.key === " ") choose(element, "key");
    else if (event.key === "Escape" || event.key === "F2") {
      close();
      const { end } = document.words.peek()[index]!;
      area.current?.focus();
      area.current?.setSelectionRange(end, end);
    } else return;
    event.preventDefault();
  }

  function onClickOfText(event: MouseEvent): void {
    const { selectionStart, selectionEnd } = area.current!;
    clearTimeout(timer.current);
    if (selectionStart === selectionEnd) choose(wordUnder(event), "click");
    else close();
  }

  return (
    <div
      class="editor"
      onPointerMove={onPointerMove}
      onPointerLeave={onPointerLeave}
      // A popover that was clicked open ends when the writer goes elsewhere.
      onFocusOut={(event) => {
        const to = event.relatedTarget;
        if (chosen.value && to instanceof Node && !event.currentTarget.contains(to)) close();
      }}
    >
      <div
        class="words"
        ref={layer}
        dir={direction}
        lang={tagOf(document.lang.value)}
        role="group"
        aria-label={`${label}: its words. Arrows move, Enter opens a word.`}
        onKeyDown={onKeyOfWord}
      >
        {lines.map(({ line, start }) => (
          <Line key={line.id} line={line} tabbed={placeIn(line, start, tabbed)} isOfLong={words.length > LONG} />
        ))}
      </div>
      <textarea
        ref={area}
        class="area"
        dir={direction}
        lang={tagOf(document.lang.value)}
        aria-label={label}
        aria-busy={isHeld}
        placeholder={text ? "" : placeholder}
        readOnly={isReadOnly || isHeld}
        spellcheck={false}
        onInput={(event) => {
          if (!isTyping.current) document.edit(event.currentTarget.value);
        }}
        onKeyDown={onKeyOfText}
        onClick={onClickOfText}
        onSelect={(event) => (document.caret = event.currentTarget.selectionEnd)}
        onScroll={(event) => {
          // The area is as high as its text; what scrolls is what is around it.
          event.currentTarget.scrollTop = 0;
        }}
      />
      <Chosen chosen={chosen} document={document} area={area} canEdit={!isReadOnly && !isHeld} actions={actions} />
    </div>
  );
}

interface ChosenProps {
  chosen: Signal<ChosenWord | null>;
  document: TextDocument;
  area: { current: HTMLTextAreaElement | null };
  canEdit: boolean;
  actions: WordActions | undefined;
}

/** The popover of the word that is chosen. Apart from the editor, which is not drawn again for it. */
function Chosen({ chosen, document, area, canEdit, actions }: ChosenProps) {
  const word = chosen.value;
  const isHovered = word?.how === "hover";
  useEffect(() => {
    if (!isHovered) return;
    // The focus may be anywhere.
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Escape" && !event.defaultPrevented) chosen.value = null;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [isHovered]);
  if (!word) return null;
  return (
    <WordPopover
      key={word.element}
      chosen={word}
      document={document}
      canEdit={canEdit}
      {...(actions && { actions })}
      onPin={() => {
        if (word.how === "hover") chosen.value = { ...word, how: "click" };
      }}
      onClose={() => {
        const { how, element } = word;
        chosen.value = null;
        if (how === "key" && element.isConnected) element.focus();
        else area.current?.focus({ preventScroll: true });
      }}
    />
  );
}

function wordUnder({ clientX, clientY }: MouseEvent): HTMLElement | undefined {
  return globalThis.document
    .elementsFromPoint(clientX, clientY)
    .find((element): element is HTMLElement => element instanceof HTMLElement && element.matches(".words .word"));
}

/** Put the caret where the document asks for it, and show the place. */
function useCaret(
  document: TextDocument,
  area: { current: HTMLTextAreaElement | null },
  layer: { current: HTMLElement | null },
): void {
  const range = document.asked.value;
  const isHeld = document.isHeld.value;
  useLayoutEffect(() => {
    if (!range || isHeld) return;
    document.asked.value = null;
    area.current?.focus({ preventScroll: true });
    area.current?.setSelectionRange(range.start, range.end);
    document.caret = range.end;
    const { word, piece } = elementAt(layer.current!, document.text.peek(), range.start);
    (word ?? piece ?? area.current)?.scrollIntoView({ block: "nearest" });
  }, [range, isHeld]);
}

function useLines(text: string, words: readonly Word[]): { line: Drawn; start: number }[] {
  const before = useRef<Drawn[]>([]);
  return useMemo(() => {
    const paragraphs = paragraphsOf(text, words);
    before.current = drawn(before.current, paragraphs);
    return before.current.map((line, index) => ({ line, start: paragraphs[index]!.start }));
  }, [text, words]);
}

/**
 * Put a text into a text area as if it was typed, so that the browser's undo brings the old one back.
 *
 * A value that is set by a script empties the undo history; `insertText`, deprecated as it is, has no successor.
 */
function typeInto(area: HTMLTextAreaElement, text: string): void {
  const { start, end, by } = differenceOf(area.value, text);
  const focused = document.activeElement;
  area.focus({ preventScroll: true });
  area.setSelectionRange(start, end);
  const isDone =
    document.activeElement === area &&
    (by ? document.execCommand("insertText", false, by) : document.execCommand("delete"));
  if (!isDone || area.value !== text) area.value = text;
  if (focused === area) return;
  if (focused instanceof HTMLElement && focused !== document.body) focused.focus({ preventScroll: true });
  else area.blur();
}
