import { useSignal } from "@preact/signals";
import { Component } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { TextDocument } from "./document";
import { bandOf, directionOf, isAllowed, type Paragraph, paragraphsOf, type Word, wordAt, whyOf } from "./words";

/** A word of an editor, and where it is shown. */
export interface ChosenWord {
  word: Word;
  spelling: string;
  element: HTMLElement;
  /** Whether it was chosen for good, and not by the pointer passing over it. */
  isPinned: boolean;
}

interface Props {
  document: TextDocument;
  label: string;
  placeholder?: string;
  isReadOnly?: boolean;
  /** Called with the word under the pointer or chosen with Enter; null when there is none any more. */
  onWord?: (chosen: ChosenWord | null) => void;
}

const HOVER_MS = 250;

/**
 * A text whose words are coloured by band, and that can be edited.
 *
 * The words lie behind a text area of the same shape, whose letters are transparent: typing, undo and input methods
 * are the browser's. Escape leads from the text to its words, where arrows move by word and Enter chooses one.
 */
export function Editor({ document, label, placeholder, isReadOnly = false, onWord }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  /** The word that the Tab key comes to. */
  const current = useSignal(0);
  const text = document.text.value;
  const words = document.words.value;
  const direction = directionOf(document.shownLang.value);
  const paragraphs = useParagraphs(text, words);
  const tabbed = words[Math.min(current.value, words.length - 1)]?.start ?? -1;

  useEffect(() => () => clearTimeout(timer.current), []);

  const elements = (): HTMLElement[] => [...layer.current!.querySelectorAll<HTMLElement>("[data-start]")];
  const wordOf = (element: HTMLElement): Word | undefined =>
    document.words.peek().find((word) => word.start === Number(element.dataset["start"]));

  function choose(element: HTMLElement | undefined, isPinned: boolean): void {
    const word = element && wordOf(element);
    if (element && word) {
      const spelling = document.text.peek().slice(word.start, word.end);
      onWord?.({ word, spelling, element, isPinned });
    } else onWord?.(null);
  }

  function focusWord(index: number): void {
    const all = elements();
    const within = Math.max(0, Math.min(index, all.length - 1));
    current.value = within;
    all[within]?.focus();
  }

  function onPointerMove(event: PointerEvent): void {
    if (event.pointerType === "touch") return;
    const over = globalThis.document
      .elementsFromPoint(event.clientX, event.clientY)
      .find((element): element is HTMLElement => element instanceof HTMLElement && "start" in element.dataset);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => choose(over, false), HOVER_MS);
  }

  function onKeyOfText(event: KeyboardEvent): void {
    if (event.key !== "Escape" || event.isComposing) return;
    const place = area.current!.selectionStart;
    const word = wordAt(document.words.peek(), place) ?? document.words.peek().find((each) => each.start >= place);
    if (!word) return;
    event.preventDefault();
    focusWord(elements().findIndex((element) => Number(element.dataset["start"]) === word.start));
  }

  function onKeyOfWord(event: KeyboardEvent): void {
    const forward = direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const backward = direction === "rtl" ? "ArrowRight" : "ArrowLeft";
    const element = event.target as HTMLElement;
    const index = elements().indexOf(element);
    if (index < 0) return;
    switch (event.key) {
      case forward:
      case "ArrowDown":
        focusWord(index + 1);
        break;
      case backward:
      case "ArrowUp":
        focusWord(index - 1);
        break;
      case "Home":
        focusWord(0);
        break;
      case "End":
        focusWord(elements().length - 1);
        break;
      case "Enter":
      case " ":
        choose(element, true);
        break;
      case "Escape":
      case "F2": {
        const word = wordOf(element);
        onWord?.(null);
        area.current?.focus();
        if (word) area.current?.setSelectionRange(word.end, word.end);
        break;
      }
      default:
        return;
    }
    event.preventDefault();
  }

  return (
    <div class="editor" dir={direction} lang={document.shownLang.value} onPointerMove={onPointerMove} onPointerLeave={() => clearTimeout(timer.current)}>
      <div class="words" ref={layer} role="group" aria-label={`${label}: its words. Arrows move, Enter opens a word.`} onKeyDown={onKeyOfWord}>
        {paragraphs.map((paragraph, index) => (
          <Line key={index} paragraph={paragraph} tabbed={placeIn(paragraph, tabbed)} />
        ))}
      </div>
      <textarea
        ref={area}
        class="area"
        aria-label={label}
        placeholder={placeholder}
        readOnly={isReadOnly}
        spellcheck={false}
        value={text}
        onInput={(event) => document.edit(event.currentTarget.value)}
        onKeyDown={onKeyOfText}
        onScroll={(event) => {
          // The area is as high as its text; what scrolls is what is around it.
          event.currentTarget.scrollTop = 0;
        }}
      />
    </div>
  );
}

/** Return a place of the text as one of a paragraph; -1 for one elsewhere. */
function placeIn(paragraph: Paragraph, place: number): number {
  const within = place - paragraph.start;
  return within >= 0 && within < paragraph.text.length ? within : -1;
}

/** Return the paragraphs of a text; one that has not changed is the same object, and so is not drawn again. */
function useParagraphs(text: string, words: readonly Word[]): Paragraph[] {
  const before = useRef<Map<string, Paragraph>>(new Map());
  return useMemo(() => {
    const made = new Map<string, Paragraph>();
    const all = paragraphsOf(text, words).map((paragraph) => {
      const key = JSON.stringify(paragraph);
      const known = before.current.get(key) ?? paragraph;
      made.set(key, known);
      return known;
    });
    before.current = made;
    return all;
  }, [text, words]);
}

interface LineProps {
  paragraph: Paragraph;
  /** The word of it that the Tab key comes to; -1 for none. */
  tabbed: number;
}

/** Drawn again only if it has changed. */
class Line extends Component<LineProps> {
  override shouldComponentUpdate({ paragraph, tabbed }: LineProps): boolean {
    return paragraph !== this.props.paragraph || tabbed !== this.props.tabbed;
  }

  override render({ paragraph, tabbed }: LineProps) {
    const { start, text, words } = paragraph;
    const parts = [];
    let done = 0;
    for (const word of words) {
      if (word.start > done) parts.push(text.slice(done, word.start));
      parts.push(<WordSpan word={word} start={start} spelling={text.slice(word.start, word.end)} isTabbed={word.start === tabbed} />);
      done = word.end;
    }
    parts.push(text.slice(done));
    // An empty line is as high as others.
    return <div class="line">{text === "" ? "\u200b" : parts}</div>;
  }
}

function WordSpan({ word, start, spelling, isTabbed }: { word: Word; start: number; spelling: string; isTabbed: boolean }) {
  return (
    <span
      role="button"
      tabIndex={isTabbed ? 0 : -1}
      class={`word ${classOf(word)}`}
      data-start={start + word.start}
      data-end={start + word.end}
      data-rank={word.rank ?? ""}
      data-reason={word.reason}
      data-band={bandOf(word.rank)}
      aria-description={isAllowed(word) ? undefined : whyOf(word)}
    >
      {spelling}
    </span>
  );
}

function classOf(word: Word): string {
  if (word.reason === "new") return "is-new";
  if (!isAllowed(word)) return "is-not-allowed";
  if (word.reason === "added" || word.reason === "number") return "is-added";
  return `band-${bandOf(word.rank)}`;
}
