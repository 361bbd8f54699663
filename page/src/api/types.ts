// What the service takes and answers, of its OpenAPI document. Offsets of the service are in code points.
import type {
  ChatCompletionRequest,
  CheckRequest,
  Exercises as AnyExercises,
  RunningWord,
  Vocabulary,
} from "../../schemas";

export type {
  CheckReport as Report,
  ExercisesRequest,
  LeftOutRow,
  ListVocabulary,
  NearestWord,
  OtherWords,
  PromptWord,
  ReadEntry,
  ReadVocabulary,
  RewrittenText,
  RunningWord,
  Vocabulary as Vocab,
  VocabularyWords,
} from "../../schemas";

export type Reason = RunningWord["reason"];

/** What a check is to do besides. */
export type CheckOptions = Pick<CheckRequest, "readings" | "names" | "inflected" | "sentences">;

export type Message = { role: "user" | "assistant"; content: string };

export type ChatRequest = Omit<ChatCompletionRequest, "messages" | "vocab"> & {
  messages: Message[];
  vocab: Vocabulary;
};

/** The block `vocab` of an answer, as far as the page reads it. */
export interface AnswerVocab {
  new_words?: { word: string }[];
  must_use?: { word: string; count: number; used: number }[];
}

type AnyExercise = AnyExercises["exercises"][number];
type MemberOf<Union, Name> = Union extends Union ? (Name extends keyof Union ? Union[Name] : never) : never;
type Flat<Union> = { [Name in Union extends Union ? keyof Union : never]?: MemberOf<Union, Name> };

export type ExerciseKind = AnyExercise["kind"];

/** Which members an exercise and its items have, its kind says. */
export type Exercise = Omit<Flat<AnyExercise>, "kind" | "items"> & {
  kind: ExerciseKind;
  items: Flat<AnyExercise["items"][number]>[];
};

export type Exercises = Pick<AnyExercises, "num_sentences" | "num_unlisted_sentences" | "left_out"> & {
  exercises: Exercise[];
};
