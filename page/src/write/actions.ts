import type { ChatRequest, Message } from "../api/types";
import { authorVocabOf, type Brief, brief, change, distinct, stepOf, vocabOf } from "../state/brief";
import { levelsOf } from "../state/connection";
import { sentenceAt, sentencesOf } from "../text/sentences";
import type { WordActions } from "../text/word-popover";
import { isAllowed, type Range, unusedOf, type Word } from "../text/words";
import { draft, orAsBefore, put, putRewritten, requestOf, run } from "./generate";

/** Characters of a text that the model is shown when it goes on: about 700 words, which small models can read. */
const MOST_CONTEXT = 4_000;

/** Return the list a step simpler (-1) or harder (1), if there is one. */
export function nextList(direction: -1 | 1): Pick<Brief, "numWords" | "level"> | null {
  return stepOf(brief.value, direction, levelsOf(brief.value.lang));
}

/** Put the text into the next smaller list. */
export function simpler(): Promise<void> {
  const list = nextList(-1);
  if (!list) return Promise.resolve();
  return run((signal) =>
    orAsBefore(async () => {
      const vocab = rewritingVocab({ ...brief.peek(), ...list });
      await putRewritten(vocab, signal);
      change(list);
    }),
  );
}

/** Write the text anew with the next larger list. */
export function harder(): Promise<void> {
  const list = nextList(1);
  if (!list) return Promise.resolve();
  return run(async (signal) => {
    const larger = { ...brief.peek(), ...list };
    const prompt =
      larger.prompt || `Write this text again, in richer words:\n\n${draft.text.peek().slice(0, MOST_CONTEXT)}`;
    const before = draft.text.peek();
    try {
      await put(requestOf(larger, [{ role: "user", content: prompt }]), signal);
    } finally {
      if (draft.text.peek() !== before) change(list);
    }
  });
}

/** Put what is not in the list into words that are. */
export function rewriteUnlisted(): Promise<void> {
  return run((signal) => putRewritten(rewritingVocab(brief.peek()), signal));
}

/** Required and new words stay as they are when a text is rewritten. */
function rewritingVocab(brief: Brief) {
  return vocabOf(brief, [...brief.added, ...brief.mustUse, ...draft.newWords.peek()]);
}

/** Append a chapter in the list and the words that the text has besides. */
export function nextChapter(): Promise<void> {
  return run(async (signal) => {
    const text = draft.text.peek().trimEnd();
    const own = brief.peek();
    const words = draft.words.peek();
    const vocab = authorVocabOf({
      ...own,
      added: [...own.added, ...own.mustUse, ...besides(draft.text.peek(), words)],
      mustUse: unusedOf(own.mustUse, own.anyForm, text, words),
      newWords: false,
    });
    const messages: Message[] = [
      ...promptOf(own),
      { role: "assistant", content: text.slice(-MOST_CONTEXT) },
      { role: "user", content: "Go on: write what happens next." },
    ];
    const head = `${text}\n\n`;
    await put(requestOf(own, messages, vocab), signal, head);
    draft.asked.value = { start: head.length, end: head.length };
  });
}

/** Return the words of a text that are not in its list, but those that are left out. */
function besides(text: string, words: readonly Word[]): string[] {
  return distinct(
    words
      .filter((word) => !isAllowed(word) && word.reason !== "excluded" && word.reason !== "symbol")
      .map(({ start, end }) => text.slice(start, end)),
  );
}

const SENTENCE_TOKENS = 80;
/** The first is higher than the service's, for the same sentence again would be of no use. */
const TEMPERATURES = [0.7, 0.9, 1.1] as const;

/** Write the sentence of the caret anew. */
export function newSentence(): Promise<void> {
  return run((signal) =>
    orAsBefore(async () => {
      const text = draft.text.peek();
      const sentence = sentenceAt(text, draft.caret);
      if (!sentence) return;
      const [head, tail] = [text.slice(0, sentence.start), text.slice(sentence.end)];
      const request = sentenceRequest(text, sentence);
      const known = new Set(sentencesOf(text).map(({ start, end }) => text.slice(start, end)));
      for (const temperature of TEMPERATURES) {
        const made = firstSentence(await put({ ...request, temperature }, signal, head, tail));
        draft.edit(head + made + tail);
        draft.asked.value = { start: head.length, end: head.length + made.length };
        if (!known.has(made)) return;
      }
    }),
  );
}

function firstSentence(text: string): string {
  const [first] = sentencesOf(text);
  const sentence = first ? text.slice(first.start, first.end) : text.trim();
  // A quotation that ended in a later sentence.
  return /^[“"«„][^”"»]*$/u.test(sentence) ? sentence.slice(1) : sentence;
}

/** Return the request for one sentence between others, which has the required words that only the old one had. */
function sentenceRequest(text: string, sentence: Range): ChatRequest {
  const own = brief.peek();
  const { start, end } = sentence;
  const words = draft.words.peek();
  const others = words.filter((word) => word.end <= start || word.start >= end);
  const unused = new Set(unusedOf(own.mustUse, own.anyForm, text, words));
  const mustUse = unusedOf(own.mustUse, own.anyForm, text, others).filter((word) => !unused.has(word));
  const next = sentenceAt(text.slice(end), 0);
  const behind = next && text.slice(end + next.start, end + next.end);
  const [prompt] = promptOf(own);
  const before = text.slice(Math.max(0, start - MOST_CONTEXT), start);
  const wish = behind ? `\n\nOne sentence is missing before this one: "${behind}"` : "";
  const request = requestOf(own, [{ role: "user", content: `${prompt?.content ?? "Tell me a story."}${wish}` }], {
    ...authorVocabOf({
      ...own,
      added: [...own.added, ...own.mustUse, ...draft.newWords.peek()],
      mustUse,
      newWords: false,
    }),
    max_sentences: 1,
  });
  request.max_tokens = SENTENCE_TOKENS;
  // The answer goes on where the text before it ends, so that it fits.
  if (before.trim()) {
    request.messages.push({ role: "assistant", content: before });
    request.continue_final_message = true;
    request.add_generation_prompt = false;
  }
  return request;
}

function promptOf({ prompt }: Brief): Message[] {
  return prompt.trim() ? [{ role: "user", content: prompt }] : [];
}

/** What the popover of a word does to the brief. */
export const wordActions: WordActions = {
  neverUse(spelling) {
    const { excluded, added, mustUse } = brief.peek();
    change({
      excluded: distinct([...excluded, spelling]),
      added: without(added, spelling),
      mustUse: without(mustUse, spelling),
    });
  },
  add(spelling) {
    const { excluded, added } = brief.peek();
    change({ added: distinct([...added, spelling]), excluded: without(excluded, spelling) });
  },
};

function without(words: readonly string[], spelling: string): string[] {
  return words.filter((word) => word.toLowerCase() !== spelling.toLowerCase());
}
