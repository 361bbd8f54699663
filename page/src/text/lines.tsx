import { Component, createRef } from "preact";
import { bandOf, type Drawn, drawn, isAllowed, piecesOf, WHY, type Word } from "./words";

/**
 * In a text of so many words, the pieces that are far from what is seen are drawn without their words: with each key
 * a paragraph is laid out anew, and 10,000 words of one take 90 ms.
 */
export const LONG = 2_000;

interface LineProps {
  line: Drawn;
  /** The word of it that the Tab key comes to; -1 for none. */
  tabbed: number;
  isOfLong: boolean;
}

/** Return a place of the text as one of a part that begins at `start`; -1 for one elsewhere. */
export function placeIn({ paragraph }: Drawn, start: number, place: number): number {
  const within = place - start;
  return within >= 0 && within < paragraph.text.length ? within : -1;
}

/** A paragraph, in pieces: one may have all words of a text, and each key is to draw few of them. */
export class Line extends Component<LineProps> {
  private pieces: Drawn[] = [];

  override shouldComponentUpdate(next: LineProps): boolean {
    return isOther(next, this.props);
  }

  override render({ line, tabbed, isOfLong }: LineProps) {
    const { text } = line.paragraph;
    const pieces = piecesOf(line.paragraph);
    this.pieces = drawn(this.pieces, pieces);
    return (
      <div class="line">
        {/* An empty line is as high as others. */}
        {text === "" && "\u200b"}
        {this.pieces.map((piece, index) => (
          <Piece
            key={piece.id}
            line={piece}
            tabbed={placeIn(piece, pieces[index]!.start, tabbed)}
            isOfLong={isOfLong}
          />
        ))}
      </div>
    );
  }
}

function isOther(next: LineProps, now: LineProps): boolean {
  return next.line !== now.line || next.tabbed !== now.tabbed || next.isOfLong !== now.isOfLong;
}

class Piece extends Component<LineProps, { isNear: boolean }> {
  override state = { isNear: false };
  private element!: Element;
  private readonly own = createRef<HTMLSpanElement>();

  override shouldComponentUpdate(next: LineProps, { isNear }: { isNear: boolean }): boolean {
    return isOther(next, this.props) || (next.isOfLong && isNear !== this.state.isNear);
  }

  override componentDidMount(): void {
    this.element = this.own.current!;
    watch(this.element, (isNear) => this.setState({ isNear }));
  }

  override componentWillUnmount(): void {
    unwatch(this.element);
  }

  override render({ line, tabbed, isOfLong }: LineProps, { isNear }: { isNear: boolean }) {
    const { text, words } = line.paragraph;
    if (isOfLong && !isNear) return <span ref={this.own}>{text}</span>;
    const parts = [];
    let done = 0;
    for (const word of words) {
      if (word.start > done) parts.push(text.slice(done, word.start));
      parts.push(<WordSpan word={word} spelling={text.slice(word.start, word.end)} isTabbed={word.start === tabbed} />);
      done = word.end;
    }
    parts.push(text.slice(done));
    return <span ref={this.own}>{parts}</span>;
  }
}

const watchers = new WeakMap<Element, (isNear: boolean) => void>();
let observer: IntersectionObserver | undefined;

/** Call back when an element comes within a window's height of what is seen, and when it leaves that. */
function watch(element: Element, call: (isNear: boolean) => void): void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) watchers.get(target)?.(isIntersecting);
    },
    { rootMargin: "100% 0px" },
  );
  watchers.set(element, call);
  observer.observe(element);
}

function unwatch(element: Element): void {
  observer?.unobserve(element);
  watchers.delete(element);
}

function WordSpan({ word, spelling, isTabbed }: { word: Word; spelling: string; isTabbed: boolean }) {
  return (
    <span
      role="button"
      tabIndex={isTabbed ? 0 : -1}
      class={`word ${classOf(word)}`}
      data-rank={word.rank ?? ""}
      data-reason={word.reason}
      data-band={bandOf(word.rank)}
      aria-description={isAllowed(word) ? undefined : WHY[word.reason]}
    >
      {spelling}
    </span>
  );
}

/** Return the class of words that are looked at as this one. */
export function classOf(word: Word): string {
  if (word.reason === "new") return "is-new";
  if (word.reason === "name") return "is-name";
  if (!isAllowed(word)) return "is-not-allowed";
  if (word.reason === "added" || word.reason === "number") return "is-added";
  return `band-${bandOf(word.rank)}`;
}

/** Return where the paragraphs of a text begin. */
function startsOf(text: string): number[] {
  let start = 0;
  return text.split("\n").map((line) => {
    const own = start;
    start += line.length + 1;
    return own;
  });
}

/** Return where the word of an element begins in the text that is drawn in `layer`. */
export function startOf(layer: HTMLElement, text: string, element: Element): number {
  const line = element.closest(".line")!;
  const before = document.createRange();
  before.setStart(line, 0);
  before.setEndBefore(element);
  return startsOf(text)[[...layer.children].indexOf(line)]! + before.toString().length;
}

interface Shown {
  piece?: HTMLElement | undefined;
  /** Missing where the piece is drawn without its words. */
  word?: HTMLElement | undefined;
}

/** Return what shows a place of the text. */
export function elementAt(layer: HTMLElement, text: string, place: number): Shown {
  const starts = startsOf(text);
  const index = starts.findLastIndex((start) => start <= place);
  const within = place - starts[index]!;
  const [piece, start] = childAt(layer.children[index], within);
  const [word] = childAt(piece, within - start);
  return { piece: asElement(piece), word: asElement(word) };
}

/** Return the child that has a place of an element's text, and where it begins; the last one for a place behind it. */
function childAt(element: Node | undefined, place: number): [Node | undefined, number] {
  let [start, end] = [0, 0];
  for (const child of element?.childNodes ?? []) {
    start = end;
    end += child.textContent!.length;
    if (place < end) return [child, start];
  }
  return [element?.lastChild ?? undefined, start];
}

function asElement(node: Node | undefined): HTMLElement | undefined {
  return node instanceof HTMLElement ? node : undefined;
}

/** Call back with the element of a word; if it is far from what is seen, scroll to it first. */
export function whenDrawn(find: () => Shown, call: (word: HTMLElement) => void, tries = 10): void {
  const { word, piece } = find();
  if (word) {
    call(word);
  } else if (tries) {
    piece?.scrollIntoView({ block: "center" });
    requestAnimationFrame(() => whenDrawn(find, call, tries - 1));
  }
}
