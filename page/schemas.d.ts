// Made by types.mjs from the service's OpenAPI document: run make page.

export interface Schemas {
  ChatCompletionRequest?: ChatCompletionRequest;
  CheckRequest?: CheckRequest;
  Exercises?: Exercises;
  RunningWord?: RunningWord;
  Vocabulary?: Vocabulary;
  CheckReport?: CheckReport;
  ExercisesRequest?: ExercisesRequest;
  LeftOutRow?: LeftOutRow;
  ListVocabulary?: ListVocabulary;
  NearestWord?: NearestWord;
  OtherWords?: OtherWords;
  PromptWord?: PromptWord;
  ReadEntry?: ReadEntry;
  ReadVocabulary?: ReadVocabulary;
  RewrittenText?: RewrittenText;
  VocabularyWords?: VocabularyWords;
}
export interface ChatCompletionRequest {
  model?: string | null;
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  min_p?: number | null;
  n?: number | null;
  seed?: number | null;
  stop?: (string | string[]) | null;
  stream?: boolean | null;
  stream_options?: StreamOptions | null;
  stream_interval?: number | null;
  frequency_penalty?: number | null;
  presence_penalty?: number | null;
  repetition_penalty?: number | null;
  logit_bias?: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^(0|[1-9][0-9]{0,9})$".
     */
    [k: string]: number;
  } | null;
  min_tokens?: number | null;
  response_format?: (PlainFormat | SchemaFormat) | null;
  structured_outputs?: StructuredOutputs | null;
  allowed_token_ids?: number[] | null;
  bad_words?: string[] | null;
  ignore_eos?: boolean | null;
  include_stop_str_in_output?: boolean | null;
  logprob_token_ids?: number[] | null;
  repetition_detection?: RepetitionDetection | null;
  return_token_ids?: boolean | null;
  return_tokens_as_token_ids?: boolean | null;
  skip_special_tokens?: boolean | null;
  spaces_between_special_tokens?: boolean | null;
  stop_token_ids?: number[] | null;
  messages: (TextMessage | AssistantMessage | ToolMessage)[];
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  tools?: Tool[] | null;
  tool_choice?: (("none" | "auto" | "required") | NamedTool) | null;
  parallel_tool_calls?: boolean | null;
  reasoning_effort?: ("none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max") | null;
  include_reasoning?: boolean | null;
  thinking_token_budget?: number | null;
  add_generation_prompt?: boolean | null;
  continue_final_message?: boolean | null;
  chat_template_kwargs?: {
    [k: string]: unknown;
  } | null;
  cache_salt?: string | null;
  priority?: number | null;
  request_id?: string | null;
  return_token_offsets?: boolean | null;
  session_id?: string | null;
  user?: string | null;
  metadata?: {
    [k: string]: unknown;
  } | null;
  modalities?: "text"[] | null;
  prompt_cache_key?: string | null;
  prompt_cache_retention?: string | null;
  return_assistant_tokens_mask?: boolean | null;
  safety_identifier?: string | null;
  service_tier?: string | null;
  store?: boolean | null;
  vocab?: Vocabulary | null;
  vocab_lang?: string | null;
  vocab_n_words?: number | null;
  num_beams?: number | null;
  length_penalty?: number | null;
  early_stopping?: boolean | "never" | null;
  best_of?: number | null;
  no_repeat_ngram_size?: number | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
}
export interface StreamOptions {
  include_usage?: boolean | null;
  continuous_usage_stats?: boolean | null;
  include_obfuscation?: boolean | null;
  token_details?: boolean | null;
  top_k?: number | null;
}
export interface PlainFormat {
  type: "text" | "json_object";
}
export interface SchemaFormat {
  type: "json_schema";
  json_schema: NamedSchema;
}
export interface NamedSchema {
  name: string;
  schema: {
    [k: string]: unknown;
  };
  strict?: boolean | null;
}
export interface StructuredOutputs {
  json?:
    | {
        [k: string]: unknown;
      }
    | string
    | null;
  choice?: string[] | null;
  regex?: string | null;
  grammar?: string | null;
  json_object?: boolean | null;
  disable_any_whitespace?: boolean | null;
  disable_additional_properties?: boolean | null;
}
export interface RepetitionDetection {
  max_pattern_size?: number | null;
  min_pattern_size?: number | null;
  min_count?: number | null;
}
export interface TextMessage {
  content: string | TextPart[];
  name?: string | null;
  role: "system" | "developer" | "user";
}
export interface TextPart {
  type: "text";
  text: string;
}
export interface AssistantMessage {
  content?: (string | TextPart[]) | null;
  name?: string | null;
  role: "assistant";
  refusal?: string | null;
  reasoning?: string | null;
  reasoning_content?: string | null;
  tool_calls?: ToolCall[] | null;
}
export interface ToolCall {
  id: string;
  type?: "function";
  function: CalledFunction;
}
export interface CalledFunction {
  name: string;
  arguments: string;
}
export interface ToolMessage {
  content: string | TextPart[];
  name?: string | null;
  role: "tool";
  tool_call_id?: string | null;
}
export interface Tool {
  type: "function";
  function: ToolFunction;
}
export interface ToolFunction {
  name: string;
  description?: string | null;
  parameters?: {
    [k: string]: unknown;
  } | null;
  strict?: boolean | null;
}
export interface NamedTool {
  type: "function";
  function: Named;
}
export interface Named {
  name: string;
}
export interface Vocabulary {
  lang?: string | null;
  n_words?: number | null;
  level?: string | null;
  unit?: ("form" | "lemma") | null;
  safe?: boolean | null;
  words?: string[] | null;
  extra_words?: string[] | null;
  exclude_words?: string[] | null;
  case?: ("auto" | "sentence" | "any" | "listed") | null;
  numbers?: boolean | null;
  punctuation?: ("standard" | "full" | "basic" | "none") | null;
  layout?: ("prose" | "lines") | null;
  end?: ("word" | "sentence") | null;
  segmentation?: ("longest" | "any") | null;
  possessive?: boolean | null;
  new_words?: NewWordsMembers | null;
  must_use?: MustUseMembers[] | null;
  max_sentence_words?: number | null;
  min_sentences?: number | null;
  max_sentences?: number | null;
  select?: ("likelihood" | "posterior") | null;
  search?: Search | null;
  rescue?: boolean | number | null;
  hint?: boolean | null;
  score?: boolean | null;
  adapter?: string | null;
  prompt_words?: boolean | string | null;
}
export interface NewWordsMembers {
  n_words: number;
  per_100?: number | null;
  max?: number | null;
}
export interface MustUseMembers {
  word: string;
  count?: number | null;
  any_form?: boolean | null;
}
export interface Search {
  width: number;
}
export interface CheckRequest {
  vocab?: Vocabulary | null;
  vocab_lang?: string | null;
  vocab_n_words?: number | null;
  text: string;
  format?: ("json" | "csv" | "html") | null;
  new_words?: string[] | null;
  words?: boolean | null;
  readings?: boolean | null;
  names?: "keep" | null;
  inflected?: boolean | null;
  sentences?: boolean | null;
  schema?: {
    [k: string]: unknown;
  } | null;
}
export interface Exercises {
  object: "vocabulary.exercises";
  model: string;
  lang: string | null;
  exercises: (Questions | TrueFalse | GapFill | Matching | Order | Dictation)[];
  names: string[];
  num_sentences: number;
  num_unlisted_sentences: number;
  left_out: FewerItems[];
  vocab: {
    [k: string]: unknown;
  };
  usage: Usage;
}
export interface Questions {
  instruction?: string | null;
  kind: "questions";
  items: Question[];
}
export interface Question {
  source?: Span | null;
  options: string[];
  answer: number;
  question: string;
}
export interface Span {
  start: number;
  end: number;
}
export interface TrueFalse {
  instruction?: string | null;
  kind: "true_false";
  items: Statement[];
}
export interface Statement {
  source?: Span | null;
  statement: string;
  answer: boolean;
}
export interface GapFill {
  instruction?: string | null;
  kind: "gap_fill";
  items: Gap[];
}
export interface Gap {
  source?: Span | null;
  options: string[];
  answer: number;
  before: string;
  after: string;
}
export interface Matching {
  instruction?: string | null;
  kind: "matching";
  items: Pair[];
  shown: number[];
}
export interface Pair {
  source?: Span | null;
  word: string;
  gloss: string;
}
export interface Order {
  instruction?: string | null;
  kind: "order";
  items: OrderedSentence[];
  shown: number[];
}
export interface OrderedSentence {
  source?: Span | null;
  sentence: string;
}
export interface Dictation {
  instruction?: string | null;
  kind: "dictation";
  items: DictatedSentence[];
}
export interface DictatedSentence {
  source?: Span | null;
  sentence: string;
  num_words?: number | null;
}
export interface FewerItems {
  kind: "questions" | "true_false" | "gap_fill" | "matching" | "order" | "dictation";
  num_items: number;
  reason: string;
}
export interface Usage {
  prompt_tokens: number;
  completion_tokens?: number;
  total_tokens: number;
  prompt_tokens_details?: PromptTokensDetails | null;
  timing?: Timing | null;
}
export interface PromptTokensDetails {
  cached_tokens?: number | null;
}
export interface Timing {
  queue_time_ms?: number | null;
  time_to_first_token_ms?: number | null;
  generation_time_ms?: number | null;
  mean_itl_ms?: number | null;
  tokens_per_second?: number | null;
  total_time_ms: number;
}
export interface RunningWord {
  start: number;
  end: number;
  rank: number | null;
  reason:
    | "listed"
    | "capitals"
    | "spelling"
    | "added"
    | "number"
    | "new"
    | "name"
    | "rare"
    | "excluded"
    | "unknown"
    | "symbol";
  lemma: string | null;
  reading?: string | null;
}
export interface CheckReport {
  object: "vocabulary.report";
  file: string | null;
  num_words: number;
  num_allowed: number;
  num_distinct_words: number;
  num_distinct_allowed: number;
  num_symbols: number;
  coverage: number | null;
  num_new: number;
  coverage_with_new: number | null;
  has_exactly_the_new_words: boolean;
  bands: RankBand[];
  allowed: AllowedWord[];
  not_allowed: WordNotAllowed[];
  num_not_allowed: number;
  new: WordNotAllowed[];
  new_words: NewWord[];
  num_names: number;
  names: NewWord[];
  sentences?: CheckedSentence[];
  num_sentences?: number;
  num_sentences_with_one?: number;
  words?: RunningWord[];
  prompt_words?: PromptWord[];
}
export interface RankBand {
  max_rank: number | null;
  num_words: number;
  num_distinct_words: number;
}
export interface AllowedWord {
  word: string;
  rank: number | null;
  reason:
    | "listed"
    | "capitals"
    | "spelling"
    | "added"
    | "number"
    | "new"
    | "name"
    | "rare"
    | "excluded"
    | "unknown"
    | "symbol";
  count: number;
}
export interface WordNotAllowed {
  pointer?: string;
  line: number;
  column: number;
  start: number;
  end: number;
  word: string;
  rank: number | null;
  lemma: string | null;
  reason:
    | "listed"
    | "capitals"
    | "spelling"
    | "added"
    | "number"
    | "new"
    | "name"
    | "rare"
    | "excluded"
    | "unknown"
    | "symbol";
  nearest: NearestWord[];
}
export interface NearestWord {
  word: string;
  rank: number | null;
}
export interface NewWord {
  word: string;
  count: number;
}
export interface CheckedSentence {
  start: number;
  end: number;
  line: number;
  num_unlisted: number;
  unlisted: string[];
  text?: string;
}
export interface PromptWord {
  word: string;
  rank: number;
  forms: string[];
}
export interface ExercisesRequest {
  model?: string | null;
  vocab?: Vocabulary | null;
  vocab_lang?: string | null;
  vocab_n_words?: number | null;
  text: string;
  kinds?: ("questions" | "true_false" | "gap_fill" | "matching" | "order" | "dictation")[] | null;
  num_items?: number | null;
  keep_names?: boolean | null;
  seed?: number | null;
  stream?: boolean | null;
}
export interface LeftOutRow {
  line: number;
  text: string;
  reason: string;
  sheet: string | null;
}
export interface ListVocabulary {
  id: string;
  object: "vocabulary";
  kind: "language" | "file" | "level";
  source: string;
  languages: string[];
  readings: boolean;
  names: boolean;
  inflected: boolean;
}
export interface OtherWords {
  object: "vocabulary.swap";
  model: string;
  word: string;
  logprob: number;
  data: OtherWord[];
  vocab: {
    [k: string]: unknown;
  };
  usage: Usage;
}
export interface OtherWord {
  word: string;
  text: string;
  logprob: number;
  rank: number;
}
export interface ReadEntry {
  rank: number;
  word: string;
  level: string | null;
  forms: string[];
  line: number;
  sheet: string | null;
}
export interface ReadVocabulary {
  object: "vocabulary.entries";
  entries: ReadEntry[];
  num_ranks: number;
  levels: string[];
  columns: {
    [k: string]: string;
  };
  shapes: string[];
  encoding: string | null;
  left_out: LeftOutRow[];
  num_left_out: number;
}
export interface RewrittenText {
  object: "vocabulary.rewrite";
  model: string;
  text: string;
  changes: Change[];
  names: string[];
  coverage: Coverage;
  vocab: {
    [k: string]: unknown;
  };
  usage: Usage;
}
export interface Change {
  start: number;
  end: number;
  from: string;
  to: string;
}
export interface Coverage {
  before: number | null;
  after: number | null;
}
export interface VocabularyWords {
  object: "list";
  id: string;
  total: number;
  has_more: boolean;
  data: VocabularyWord[];
}
export interface VocabularyWord {
  rank: number;
  word: string;
  lemma: string | null;
}
