// What the service takes and answers, as far as the page reads it. Offsets of the service are in code points.

type Allowed = "listed" | "capitals" | "spelling" | "added" | "number";
export type Reason = Allowed | "new" | "name" | "rare" | "excluded" | "unknown" | "symbol";

export interface ListedWord {
  word: string;
  rank: number | null;
}

export interface RunningWord {
  start: number;
  end: number;
  rank: number | null;
  reason: Reason;
  lemma: string | null;
  /** Where it was asked for. */
  reading?: string | null;
}

export interface Report {
  num_words: number;
  num_distinct_words: number;
  num_symbols: number;
  num_new: number;
  /** Null where a text has no words. */
  coverage_with_new: number | null;
  bands: { num_words: number }[];
  not_allowed: { start: number; nearest: ListedWord[] }[];
  num_names: number;
  words?: RunningWord[];
  /** Where they were asked for. The text is of those with exactly one word that is not in the list. */
  sentences?: { start: number; text?: string }[];
  /** What the prompt of the text allows, where it was given. */
  prompt_words?: PromptWord[];
}

/** What a check is to do besides. */
export interface CheckOptions {
  readings?: boolean;
  names?: "keep";
  inflected?: boolean;
  sentences?: boolean;
}

/** What the service understood of a file of words. */
export interface ReadVocabulary {
  entries: ReadEntry[];
  /** The lowest first. */
  levels: string[];
  /** Which column each role was read from: its name, or its number. */
  columns: Record<string, string>;
  shapes: string[];
  encoding: string | null;
  left_out: LeftOutRow[];
  num_left_out: number;
}

export interface ReadEntry {
  word: string;
  level: string | null;
  forms: string[];
}

/** A row of which no word was taken. */
export interface LeftOutRow {
  line: number;
  text: string;
  reason: string;
  /** Of a file with several. */
  sheet: string | null;
}

export interface PromptWord {
  word: string;
  rank: number;
  /** Its other forms that are allowed with it. */
  forms: string[];
}

/** The list of a request: `vocab`. */
export interface Vocab {
  lang?: string;
  n_words?: number;
  level?: string;
  words?: string[];
  extra_words?: string[];
  exclude_words?: string[];
  numbers?: boolean;
  /** Whether each word has all its forms, or stands for itself. */
  unit?: "lemma" | undefined;
  /** Of English: whether each word may take 's. */
  possessive?: boolean | undefined;
  /** Of a check: the prompt of the text. */
  prompt_words?: string;
}

/** Members of `vocab` of a request that writes. */
export interface AuthorVocab extends Vocab {
  new_words?: { n_words: number; per_100: number; max?: number };
  must_use?: { word: string; count?: number; any_form?: boolean }[];
  max_sentence_words?: number;
  min_sentences?: number;
  max_sentences?: number;
  search?: { width: number };
}

export interface NewWordOfAnswer {
  word: string;
  rank: number | null;
  lemma: string | null;
  start: number;
  count: number;
}

/** The block `vocab` of an answer. */
export interface AnswerVocab {
  num_words?: number;
  num_distinct_words?: number;
  max_rank?: number | null;
  new_words?: NewWordOfAnswer[];
  must_use?: { word: string; count: number; used: number }[];
}

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface ChatRequest {
  messages: Message[];
  max_tokens: number;
  vocab: AuthorVocab;
  best_of?: number;
  seed?: number;
  temperature?: number;
  /** The last message is the beginning of the answer. */
  continue_final_message?: true;
  add_generation_prompt?: false;
}

export interface VocabularyEntry {
  id: string;
  kind: "language" | "file" | "level";
  source: string;
  languages: string[];
  /** Whether a check can tell how its words are read. */
  readings?: boolean;
  /** Whether a check can keep names apart, and whether it knows the endings of words. */
  names?: boolean;
  inflected?: boolean;
}

export interface ListWord {
  rank: number;
  word: string;
  lemma: string | null;
}

export interface SwappedWord {
  word: string;
  text: string;
  logprob: number;
  rank: number;
}

export interface Rewritten {
  text: string;
  changes: { start: number; end: number; from: string; to: string }[];
  names: string[];
  coverage: { before: number | null; after: number | null };
}

export type ExerciseKind = "questions" | "true_false" | "gap_fill" | "matching" | "order" | "dictation";

/** Which members an item has, its exercise's kind says. */
export interface ExerciseItem {
  question?: string;
  statement?: string;
  sentence?: string;
  before?: string;
  after?: string;
  word?: string;
  gloss?: string;
  options?: string[];
  /** Which option, or whether the statement is true. */
  answer?: number | boolean;
}

export interface Exercise {
  kind: ExerciseKind;
  /** Null where the list has no words for it. */
  instruction: string | null;
  items: ExerciseItem[];
  /** The order in which glosses or sentences are printed, as places of items. */
  shown?: number[];
}

export interface Exercises {
  exercises: Exercise[];
  num_sentences: number;
  num_unlisted_sentences: number;
  left_out: { kind: ExerciseKind; num_items: number; reason: string }[];
}

export interface ExercisesRequest {
  text: string;
  vocab: Vocab;
  kinds: ExerciseKind[];
  num_items: number;
  seed: number;
}
