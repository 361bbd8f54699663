import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { fetchFile } from "../api/client";
import { Task } from "../api/request";
import { vocabularies } from "../state/connection";
import { kept } from "../state/storage";
import type { TextDocument } from "../text/document";
import { directionOf, tagOf, unspacedOf } from "../text/language";
import { type Choice, type GapFill, gapFill, type GlossaryEntry, glossaryOf } from "./contents";
import { download } from "./files";

export type OpenDialog = "print" | "glossary" | "gaps";

/** How a text is given to a class; what its teacher sets and types is kept with it. */
const USUAL = {
  title: "",
  /** Of the letters, in points. */
  size: 14,
  withGlossary: false,
  /** Whether exercises are printed below their text. */
  withText: true,
  /** Whether words that are not in the list are explained too. */
  withUnlisted: false,
  /** Keys of words that the glossary leaves out. */
  leftOut: [] as string[],
  /** By the keys of words. */
  notes: {} as Record<string, string>,
  gaps: { kind: "every", nth: 7, band: 1 } as Choice,
  seed: 1,
};

type Settings = typeof USUAL;

/** The handouts of one text. */
export class Handout {
  readonly settings: Signal<Settings>;
  readonly open = signal<OpenDialog | null>(null);
  readonly saving = new Task();
  /** Every word that may be explained, also those that are left out. */
  readonly candidates: ReadonlySignal<GlossaryEntry[]>;
  readonly entries: ReadonlySignal<GlossaryEntry[]>;
  readonly gapFill: ReadonlySignal<GapFill>;

  /** `name` is that under which the browser keeps the settings. */
  constructor(
    name: string,
    readonly document: TextDocument,
  ) {
    this.settings = kept(`${name}.handout`, USUAL);
    this.change({ gaps: { ...USUAL.gaps, ...this.settings.peek().gaps } });
    this.candidates = computed(() =>
      glossaryOf(document.text.value, document.words.value, this.settings.value.withUnlisted),
    );
    this.entries = computed(() =>
      this.candidates.value.filter(({ key }) => !this.settings.value.leftOut.includes(key)),
    );
    this.gapFill = computed(() =>
      gapFill(document.text.value, document.words.value, this.settings.value.gaps, this.settings.value.seed),
    );
  }

  change(members: Partial<Settings>): void {
    this.settings.value = { ...USUAL, ...this.settings.peek(), ...members };
  }

  get title(): string {
    return this.settings.value.title.trim();
  }

  get direction(): "ltr" | "rtl" {
    return directionOf(this.document.lang.value);
  }

  /** The language of the text; a list of the service's own may have another name than its language. */
  get lang(): string {
    const id = this.document.lang.value;
    const entry = vocabularies.value.find((entry) => entry.id === id);
    return tagOf(unspacedOf(id) === null && entry?.kind === "file" ? (entry.languages[0] ?? id) : id);
  }

  /** Save the text as a file of Word, which the service makes. */
  saveDocx(): Promise<void> {
    const { size, withGlossary, notes } = this.settings.peek();
    return this.save("/v1/documents", "docx", {
      text: this.document.text.peek(),
      font_size: size,
      ...(this.document.newWords.peek().length && { new_words: this.document.newWords.peek() }),
      ...(withGlossary && {
        glossary: this.entries.peek().map(({ key, word }) => ({ word, note: notes[key]?.trim() || null })),
      }),
    });
  }

  /** Save a file that the service makes. */
  save(path: string, ending: string, body: Record<string, unknown>): Promise<void> {
    return this.saving.run(async (signal) => {
      const named = { ...body, lang: this.lang, ...(this.title && { title: this.title }) };
      download(this.title, ending, await fetchFile(path, named, signal));
    });
  }
}

const handouts = new Map<TextDocument, Handout>();

/** Return the handouts of a text; `name` is that under which the browser keeps their settings. */
export function handoutOf(document: TextDocument, name: string): Handout {
  const handout = handouts.get(document) ?? new Handout(name, document);
  handouts.set(document, handout);
  return handout;
}
