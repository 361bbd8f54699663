import { createParser } from "eventsource-parser";
import { key, modelId, status } from "../state/connection";
import { asServiceError, errorOf, OFFLINE, ServiceError } from "./request";
import type {
  AnswerVocab,
  ChatRequest,
  CheckOptions,
  Exercise,
  Exercises,
  ExercisesRequest,
  ListVocabulary,
  OtherWords,
  ReadVocabulary,
  Report,
  RewrittenText,
  Vocab,
  VocabularyWords,
} from "./types";

type Json = Record<string, unknown>;

/** Send a request to the service, and return its answer. Every call of the page passes here. */
async function send(path: string, body?: Json | Blob, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Authorization: `Bearer ${key.value}` };
  if (body !== undefined)
    headers["Content-Type"] = body instanceof Blob ? "application/octet-stream" : "application/json";
  try {
    const response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      ...(body !== undefined && { body: body instanceof Blob ? body : JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    if (!response.ok) throw await errorOf(response);
    status.value = "ready";
    return response;
  } catch (caught) {
    const error = asServiceError(caught);
    if (error.kind === "key" || error.kind === "offline") status.value = error.kind;
    throw error;
  }
}

async function json<Answer>(path: string, body?: Json | Blob, signal?: AbortSignal): Promise<Answer> {
  const response = await send(path, body, signal);
  try {
    return (await response.json()) as Answer;
  } catch (caught) {
    throw asServiceError(caught);
  }
}

/** Whether the model is loaded. */
export async function isReady(): Promise<boolean> {
  try {
    return (await fetch("/ready")).ok;
  } catch (caught) {
    throw asServiceError(caught);
  }
}

export async function fetchModel(): Promise<string> {
  const { data } = await json<{ data: { id: string }[] }>("/v1/models");
  return data[0]?.id ?? "";
}

export async function fetchVocabularies(): Promise<ListVocabulary[]> {
  return (await json<{ data: ListVocabulary[] }>("/v1/vocabularies")).data;
}

/** Return words of a list in rank order. */
export function fetchWords(list: string, offset: number, limit: number, signal: AbortSignal): Promise<VocabularyWords> {
  const path = `/v1/vocabularies/${encodeURIComponent(list)}/words?offset=${offset}&limit=${limit}`;
  return json(path, undefined, signal);
}

/** Return which words of a text are allowed, each with its place. */
export async function check(
  text: string,
  vocab: Vocab,
  newWords: string[],
  signal?: AbortSignal,
  options: CheckOptions = {},
): Promise<Report> {
  return json("/v1/vocabularies/check", { text, vocab, new_words: newWords, words: true, ...options }, signal);
}

/** Return words that could stand for the one from `start` to `end`, in code points. */
export async function swap(
  text: string,
  start: number,
  end: number,
  vocab: Vocab,
  signal?: AbortSignal,
): Promise<OtherWords> {
  return json("/v1/vocabularies/swap", { text, start, end, vocab }, signal);
}

export interface Chunk {
  text: string;
  /** Of the last chunk. */
  vocab?: AnswerVocab;
}

/** Yield the answer to a chat as it is written. */
export async function* chat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<Chunk> {
  const body = { ...request, model: modelId.value, stream: true, stream_options: { include_usage: true } };
  for await (const { choices, vocab } of stream<ChatEvent>("/v1/chat/completions", body, signal)) {
    yield { text: choices?.[0]?.delta?.content ?? "", ...(vocab && { vocab }) };
  }
}

interface ChatEvent {
  choices?: { delta?: { content?: string } }[];
  vocab?: AnswerVocab;
}

/** Yield the parts of a text that is rewritten into a list, then the whole answer. */
export function rewrite(text: string, vocab: Vocab, signal: AbortSignal) {
  return stream<{ text: string } | RewrittenText>("/v1/vocabularies/rewrite", { text, vocab, stream: true }, signal);
}

/** Yield the exercises from a text as they are made, then the whole answer. */
export function exercises(request: ExercisesRequest, signal: AbortSignal) {
  const body = { ...request, stream: true };
  return stream<{ exercise: Exercise } | Exercises>("/v1/vocabularies/exercises", body, signal);
}

async function* stream<Event>(path: string, body: Json, signal: AbortSignal): AsyncGenerator<Event> {
  const response = await send(path, body, signal);
  try {
    for await (const event of events(response)) {
      const error = event["error"] as { message?: string } | undefined;
      if (error) throw new ServiceError("service", error.message ?? "The answer was cut.");
      yield event as Event;
    }
  } catch (caught) {
    throw asServiceError(caught);
  }
}

/** Return a file that the service makes. */
export async function fetchFile(path: string, body: Json, signal: AbortSignal): Promise<Blob> {
  return (await send(path, body, signal)).blob();
}

/** Return what is understood of a file of words, or of words that were typed. */
export async function readWords(file: Blob, name: string, lang: string, signal: AbortSignal): Promise<ReadVocabulary> {
  return json(`/v1/vocabularies/read?${new URLSearchParams({ name, lang })}`, file, signal);
}

/** Return the text of a file: a book, subtitles, a web page. */
export async function fetchText(file: File, signal: AbortSignal): Promise<string> {
  const query = new URLSearchParams({ name: file.name });
  return (await json<{ text: string }>(`/v1/documents/text?${query}`, file, signal)).text;
}

/** Yield the JSON of each server-sent event until `[DONE]`; a stream that ends before it was cut. */
async function* events(response: Response): AsyncGenerator<Record<string, unknown>> {
  const waiting: string[] = [];
  const parser = createParser({ onEvent: (event) => waiting.push(event.data) });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (value) parser.feed(value);
      for (const data of waiting.splice(0)) {
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
      if (done) throw new ServiceError("offline", `The answer was cut. ${OFFLINE}`);
    }
  } finally {
    // Where the reader was left before the end, the service is told so and ends its work.
    await reader.cancel().catch(() => undefined);
  }
}
