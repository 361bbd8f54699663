import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reason } from "../src/api/types";
import {
  bandName,
  bandOf,
  differenceOf,
  drawn,
  moved,
  Offsets,
  type Paragraph,
  paragraphsOf,
  partAround,
  piecesOf,
  unusedOf,
  type Word,
  wordAt,
  wordsOf,
} from "../src/text/words";
import { partsOf, sentenceAt, sentencesOf } from "../src/text/sentences";

/** Return the runs of letters of a text as words of a list. */
function wordsIn(text: string, lemmas: Record<string, string> = {}): Word[] {
  return [...text.matchAll(/[\p{L}\p{M}']+/gu)].map(({ index, 0: spelling }) => ({
    start: index,
    end: index + spelling.length,
    rank: 1,
    reason: "listed" as Reason,
    lemma: lemmas[spelling] ?? null,
    nearest: [],
  }));
}

function spellings(text: string, words: readonly Word[]): string[] {
  return words.map(({ start, end }) => text.slice(start, end));
}

test("places in code points and in UTF-16 units are each other's", () => {
  const text = "a😀b𝒳𝒳c\u0301é";
  const offsets = new Offsets(text);
  const chars = [...text];
  let unit = 0;
  for (let point = 0; point <= chars.length; point += 1) {
    assert.equal(offsets.toUnits(point), unit);
    assert.equal(offsets.toPoints(unit), point);
    unit += chars[point]?.length ?? 0;
  }
});

test("the words of a report are at their places behind characters of two units", () => {
  const word = { start: 2, end: 5, rank: 9, reason: "rare" as Reason, lemma: null };
  const place = { ...word, line: 1, column: 3, word: "cat", nearest: [{ word: "can", rank: 50 }] };
  const report = { words: [word], not_allowed: [place] } as unknown as Parameters<typeof wordsOf>[1];
  const text = "😀 cat";
  const [found] = wordsOf(text, report);
  assert.equal(text.slice(found!.start, found!.end), "cat");
  assert.deepEqual(found!.nearest, [{ word: "can", rank: 50 }]);
});

test("an edit keeps the words beside it and drops the one that it touches", () => {
  const before = "the dog ran home";
  const cases: [string, string[]][] = [
    ["the dogs ran home", ["the", "ran", "home"]],
    ["the big dog ran home", ["the", "dog", "ran", "home"]],
    ["the dog ran", ["the", "dog", "ran"]],
    ["the dogran home", ["the", "home"]],
    ["the dog ran home.", ["the", "dog", "ran", "home"]],
    ["", []],
    ["😀 the dog ran home", ["the", "dog", "ran", "home"]],
  ];
  for (const [after, kept] of cases) {
    assert.deepEqual(spellings(after, moved(wordsIn(before), before, after)), kept, after);
  }
});

test("a word moves with each of a thousand random edits, or is dropped", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
  let text = "one two three four five six";
  let words = wordsIn(text);
  const known = new Set(spellings(text, words));
  for (let edit = 0; edit < 1_000; edit += 1) {
    const start = random(text.length + 1);
    const after = text.slice(0, start) + ["", " ", "x", "\n", "two "][random(5)] + text.slice(start + random(3));
    words = moved(words, text, after);
    text = after;
    for (const spelling of spellings(text, words)) assert.ok(known.has(spelling), spelling);
    if (edit % 50 === 0) {
      words = wordsIn(text);
      spellings(text, words).forEach((spelling) => known.add(spelling));
    }
  }
});

test("paragraphs and their pieces make up the text and have all of its words", () => {
  const text = "One, two. Three four!\n\nfive: six\n";
  const join = (parts: Paragraph[]): string[] => parts.flatMap((part) => spellings(part.text, part.words));
  const paragraphs = paragraphsOf(text, wordsIn(text));
  assert.equal(paragraphs.map((each) => each.text).join("\n"), text);
  assert.deepEqual(
    paragraphs.map(({ start }) => start),
    [0, 22, 23, 33],
  );
  assert.deepEqual(join(paragraphs), ["One", "two", "Three", "four", "five", "six"]);
  const pieces = paragraphs.flatMap(piecesOf);
  assert.equal(
    piecesOf(paragraphs[0]!)
      .map((each) => each.text)
      .join(""),
    paragraphs[0]!.text,
  );
  assert.deepEqual(
    pieces.map((each) => each.text),
    ["One, ", "two. ", "Three four!", "", "five: ", "six", ""],
  );
  assert.deepEqual(join(pieces), join(paragraphs));
});

test("a piece does not end inside a word", () => {
  const text = "Mr. Fox, go";
  const word: Word = { ...wordsIn("Mr")[0]!, end: 7 };
  assert.deepEqual(
    piecesOf({ start: 0, text, words: [word] }).map((each) => each.text),
    ["Mr. Fox, ", "go"],
  );
});

test("an edit draws one paragraph anew, which keeps its identity, and a line break adds one", () => {
  const draw = (before: Parameters<typeof drawn>[0], text: string) => drawn(before, paragraphsOf(text, wordsIn(text)));
  const first = draw([], "a b\nc d\ne f");
  const second = draw(first, "a b\nc x d\ne f");
  assert.equal(second[0], first[0]);
  assert.notEqual(second[1], first[1]);
  assert.equal(second[1]!.id, first[1]!.id);
  assert.equal(second[2], first[2]);
  const third = draw(second, "a b\n\nc x d\ne f");
  assert.deepEqual([third[0], third[2], third[3]], second);
  assert.equal(new Set(third.map(({ id }) => id)).size, 4);
});

test("bands are those of ranks", () => {
  assert.deepEqual([1, 500, 501, 10_000, 10_001, null].map(bandOf), [0, 0, 1, 5, 6, 6]);
  assert.deepEqual([0, 1, 6].map(bandName), ["1 to 500", "501 to 1,000", "beyond 10,000"]);
});

test("a caret at the end of a word is in it", () => {
  const words = wordsIn("the dog");
  assert.equal(wordAt(words, 3), words[0]);
  assert.equal(wordAt(words, 4), words[1]);
  assert.equal(wordAt(words, 9), undefined);
});

test("sentences end at marks and line breaks, and not before a small letter", () => {
  const cases: [string, string[]][] = [
    ["Go! Now? Yes…", ["Go!", "Now?", "Yes…"]],
    ['"What?" she said. "Go."', ['"What?" she said.', '"Go."']],
    ["A title\n\nIt was 3.5 miles. ", ["A title", "It was 3.5 miles."]],
    ["هل جاء؟ نعم.", ["هل جاء؟", "نعم."]],
    ["वह गया। वह आया।", ["वह गया।", "वह आया।"]],
    ["", []],
  ];
  for (const [text, sentences] of cases) {
    assert.deepEqual(
      sentencesOf(text).map(({ start, end }) => text.slice(start, end)),
      sentences,
      text,
    );
  }
});

test("the sentence of a place is the one that it is in or behind", () => {
  const text = "One. Two.\n\nThree.";
  const at = (place: number): string => {
    const { start, end } = sentenceAt(text, place)!;
    return text.slice(start, end);
  };
  assert.deepEqual([0, 4, 5, 9, 10, 11, 17].map(at), ["One.", "One.", "Two.", "Two.", "Two.", "Three.", "Three."]);
  assert.equal(sentenceAt("  ", 1), undefined);
});

test("a text is divided between sentences, and a long one is a part of its own", () => {
  const text = " One two. Three.\n\nA sentence that is long. Four. ";
  const parts = partsOf(text, 16);
  assert.equal(parts.join(""), text);
  assert.deepEqual(parts, [" One two. Three.\n\n", "A sentence that is long. ", "Four. "]);
  assert.deepEqual(partsOf("", 16), [""]);
});

test("a required word is met by its spelling, by its lemma in any form, and as an entry of several words", () => {
  const text = "Went in  front of the River";
  const words = wordsIn(text, { Went: "go" });
  assert.deepEqual(unusedOf(["go", "river", "in front of", "in the", "sea"], true, text, words), ["in the", "sea"]);
  assert.deepEqual(unusedOf(["go", "river"], false, text, words), ["go"]);
  assert.deepEqual(unusedOf(["l’homme"], false, "l'homme", wordsIn("l'homme")), []);
});

test("what an edit replaced makes the new text of the old one", () => {
  for (const [before, after] of [
    ["aaa", "aa"],
    ["abc", "axc"],
    ["", "x"],
    ["same", "same"],
    ["aba", "ababa"],
  ] as const) {
    const { start, end, by } = differenceOf(before, after);
    assert.equal(before.slice(0, start) + by + before.slice(end), after);
    assert.ok(start <= end);
  }
});

test("what is sent around a word begins and ends at blanks", () => {
  const text = "alpha beta gamma delta epsilon";
  const { from, part } = partAround(text, { start: 11, end: 16 }, 7, 8);
  assert.equal(part.trim(), "beta gamma delta");
  assert.equal(text.slice(from, from + part.length), part);
  assert.deepEqual(partAround("😀😀😀", { start: 2, end: 4 }, 1, 1).part.isWellFormed?.() ?? true, true);
});
