import { batch, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { check } from "../api/client";
import { isAborted, ServiceError } from "../api/errors";
import type { CheckOptions, Report, Vocab } from "../api/types";
import { status } from "../state/connection";
import { isRead } from "../state/readings";
import { kept } from "../state/storage";
import { moved, type Word, wordsOf } from "./words";

/** After the last key, until a text is checked again. */
export const PAUSE_MS = 300;

/** A part of a text, in UTF-16 units. */
export interface Range {
  start: number;
  end: number;
}

/** A text, its list, its new words, and what its check is to do besides. */
type Asked = [text: string, vocab: Vocab, news: string[], options: CheckOptions];

/** A text that is checked again whenever it, the list or its new words change. */
export class TextDocument {
  readonly text: Signal<string>;
  /** Words that are meant to be new. */
  readonly newWords: Signal<string[]>;
  readonly words = signal<readonly Word[]>([]);
  readonly report = signal<Report | null>(null);
  /** Whether the words are of an older text. */
  readonly isChecking = signal(false);
  readonly fault = signal<ServiceError | null>(null);
  /** Whether the model writes: the writer sees the text grow, and can edit it when it is whole. */
  readonly isHeld = signal(false);
  /** Where an editor is to put the caret. */
  readonly asked = signal<Range | null>(null);
  /** Where the caret was last. */
  caret = 0;
  private abort: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private firstAsked = 0;

  /** `name` is that under which the browser keeps the text. */
  constructor(
    name: string,
    readonly vocab: ReadonlySignal<Vocab>,
    readonly lang: ReadonlySignal<string>,
    options?: ReadonlySignal<CheckOptions>,
  ) {
    this.text = kept(`${name}.text`, "");
    this.newWords = kept<string[]>(`${name}.new`, []);
    effect(() => {
      const besides = { ...options?.value, ...(isRead(this.lang.value) && { readings: true }) };
      const asked: Asked = [this.text.value, this.vocab.value, this.newWords.value, besides];
      if (status.value === "ready") this.schedule(asked);
    });
  }

  /** Change the text, as typing does. */
  edit(edited: string): void {
    // As a text area has it: other line breaks would have other places there.
    const text = edited.replace(/\r\n?/g, "\n");
    if (text === this.text.peek()) return;
    batch(() => {
      this.words.value = moved(this.words.peek(), this.text.peek(), text);
      this.text.value = text;
    });
  }

  replace(start: number, end: number, by: string): void {
    const text = this.text.peek();
    this.edit(text.slice(0, start) + by + text.slice(end));
  }

  private schedule(asked: Asked): void {
    clearTimeout(this.timer);
    if (!asked[0].trim()) {
      this.abort?.abort();
      batch(() => {
        this.report.value = null;
        this.words.value = [];
        this.isChecking.value = false;
        this.fault.value = null;
      });
      return;
    }
    this.isChecking.value = true;
    const now = performance.now();
    this.firstAsked ||= now;
    // A text that grows without a pause is checked all the same.
    const pause = now - this.firstAsked > 3 * PAUSE_MS ? 0 : PAUSE_MS;
    this.timer = setTimeout(() => void this.check(asked), pause);
  }

  private async check(asked: Asked): Promise<void> {
    const [text, vocab, news, options] = asked;
    this.firstAsked = 0;
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    try {
      const report = await check(text, vocab, news, abort.signal, options);
      const now = this.text.peek();
      batch(() => {
        this.report.value = report;
        this.words.value = moved(wordsOf(text, report), text, now);
        this.fault.value = null;
        this.isChecking.value = now !== text;
      });
    } catch (error) {
      if (isAborted(error)) return;
      if (!(error instanceof ServiceError)) throw error;
      this.isChecking.value = false;
      this.fault.value = error;
      if (error.kind === "busy") {
        this.timer = setTimeout(() => void this.check(asked), 1_000 * (error.retryAfterS ?? 2));
      }
    }
  }
}
