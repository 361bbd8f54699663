import { batch, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { check } from "../api/client";
import { LatestRequest } from "../api/request";
import type { CheckOptions, Report, Vocab } from "../api/types";
import { isRead, status } from "../state/connection";
import { kept } from "../state/storage";
import { moved, type Range, type Word, wordsOf } from "./words";

/** After the last key, until a text is checked again. */
export const PAUSE_MS = 300;

/** A text that is checked again whenever it, the list or its new words change. */
export class TextDocument {
  readonly text: Signal<string>;
  /** Words that are meant to be new. */
  readonly newWords: Signal<string[]>;
  readonly words = signal<readonly Word[]>([]);
  readonly report = signal<Report | null>(null);
  private readonly request = new LatestRequest();
  /** Whether the words are of an older text. */
  readonly isChecking = this.request.isPending;
  readonly fault = this.request.fault;
  /** Whether the model writes: the writer sees the text grow, and can edit it when it is whole. */
  readonly isHeld = signal(false);
  /** Where an editor is to put the caret. */
  readonly asked = signal<Range | null>(null);
  /** Where the caret was last. */
  caret = 0;
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
      const asked = [this.text.value, this.vocab.value, this.newWords.value, besides] as const;
      if (status.value === "ready") this.check(...asked);
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

  private check(text: string, vocab: Vocab, news: string[], options: CheckOptions): void {
    if (!text.trim()) {
      this.request.cancel();
      batch(() => {
        this.report.value = null;
        this.words.value = [];
      });
      return;
    }
    const now = performance.now();
    this.firstAsked ||= now;
    // A text that grows without a pause is checked all the same.
    const pause = now - this.firstAsked > 3 * PAUSE_MS ? 0 : PAUSE_MS;
    this.request.send(
      pause,
      (signal) => {
        this.firstAsked = 0;
        return check(text, vocab, news, signal, options);
      },
      (report) => {
        this.report.value = report;
        this.words.value = moved(wordsOf(text, report), text, this.text.peek());
      },
    );
  }
}
