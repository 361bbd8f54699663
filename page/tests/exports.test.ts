import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reason } from "../src/api/types";
import { ankiFile } from "../src/exports/files";
import { type Choice, gapFill, glossaryOf, shuffled } from "../src/exports/contents";
import type { Word } from "../src/text/words";

/** The words of a text, as a check finds them; those that are not named are listed at rank 100. */
function wordsOf(text: string, named: Record<string, [Reason, number | null, string?]> = {}): Word[] {
  return [...text.matchAll(/[\p{L}\p{N}'-]+/gu)].map((match) => {
    const [reason, rank, lemma] = named[match[0]] ?? (/^\d+$/.test(match[0]) ? ["number", null] : ["listed", 100]);
    return { start: match.index, end: match.index + match[0].length, rank, reason, lemma: lemma ?? null, nearest: [] };
  });
}

const TEXT = 'Anna had 2 cats. "Geraniums grow!" she said. The geranium was red, and a zebra\nate it.';
const NAMED: Record<string, [Reason, number | null, string?]> = {
  Anna: ["added", null],
  Geraniums: ["new", 20_000, "geranium"],
  geranium: ["new", 18_000, "geranium"],
  zebra: ["rare", 6_000, "zebra"],
  red: ["listed", 700],
};

test("a glossary has new and added words once, with the sentence that they come in first", () => {
  const entries = glossaryOf(TEXT, wordsOf(TEXT, NAMED), false);
  assert.deepEqual(
    entries.map(({ word, lemma, rank, sentence }) => [word, lemma, rank, sentence]),
    [
      ["Anna", null, null, "Anna had 2 cats."],
      ["Geraniums", "geranium", 20_000, '"Geraniums grow!" she said.'],
    ],
  );
  const geraniums = entries[1]!;
  assert.equal(geraniums.sentence.slice(geraniums.start, geraniums.end), "Geraniums");
});

test("a capital that a sentence gives is not in the glossary, and unlisted words are on wish", () => {
  const text = "Zebra and zebras.\nNo mark here";
  const words = wordsOf(text, { Zebra: ["rare", 6_000, "zebra"], zebras: ["rare", 9_000, "zebra"] });
  assert.deepEqual(
    glossaryOf(text, words, true).map(({ word, sentence }) => [word, sentence]),
    [["zebra", "Zebra and zebras."]],
  );
  assert.deepEqual(glossaryOf(text, words, false), []);
});

function answersOf(choice: Partial<Choice>): string[] {
  return gapFill(TEXT, wordsOf(TEXT, NAMED), { kind: "every", nth: 7, band: 0, ...choice }, 1).answers;
}

test("gaps are every nth word, the new ones, the unlisted ones, or those of a band; never a number", () => {
  assert.deepEqual(answersOf({ kind: "every", nth: 3 }), ["cats", "she", "geranium", "and", "ate"]);
  assert.deepEqual(answersOf({ kind: "new" }), ["Geraniums", "geranium"]);
  assert.deepEqual(answersOf({ kind: "unlisted" }), ["zebra"]);
  assert.deepEqual(answersOf({ kind: "band", band: 1 }), ["red"]);
});

test("the answers put into the gaps make the text again, and the bank has each of them", () => {
  const { pieces, answers, bank } = gapFill(TEXT, wordsOf(TEXT, NAMED), { kind: "every", nth: 2, band: 0 }, 7);
  assert.equal(pieces.map((piece, index) => piece + (answers[index] ?? "")).join(""), TEXT);
  assert.deepEqual([...bank].sort(), [...answers].sort());
});

test("a seed gives one order, and each order comes as often as others", () => {
  assert.deepEqual(shuffled([1, 2, 3, 4, 5], 3), shuffled([1, 2, 3, 4, 5], 3));
  const counts = new Map<string, number>();
  for (let seed = 0; seed < 6_000; seed += 1) {
    const order = shuffled([1, 2, 3], seed).join("");
    counts.set(order, (counts.get(order) ?? 0) + 1);
  }
  assert.equal(counts.size, 6);
  for (const count of counts.values()) assert.ok(count > 850 && count < 1_150, `${count} of 6,000`);
});

const ENTRY = { key: "r&b", word: "R&B", lemma: null, rank: null, sentence: 'He said,\n"R&B <3".', start: 10, end: 13 };

test("cards are escaped as HTML and every cell is quoted, behind the lines that Anki reads", () => {
  assert.equal(
    ankiFile([ENTRY], { "r&b": "music, <loud>" }, "comma", "ltr"),
    '#separator:comma\n#html:true\n#columns:Word,Sentence,Note\n"R&amp;B","He said,<br>""<b>R&amp;B</b> &lt;3"".","music, &lt;loud&gt;"\n',
  );
});

test("what Anki or a spreadsheet would take for its own is written as a character reference", () => {
  const entry = { ...ENTRY, key: "#1", word: "=#1", sentence: "#1\t[sound:a] {{c1::x}} a-b", start: 0, end: 2 };
  assert.equal(
    ankiFile([entry], { "#1": "-b" }, "tab", "ltr").split("\n")[3],
    '"&#61;#1"\t"<b>#1</b>\t&#91;sound:a] &#123;&#123;c1::x}} a-b"\t"&#45;b"',
  );
});

test("cards of a language that is written from right to left say so", () => {
  const entry = { ...ENTRY, key: "بيت", word: "بيت", sentence: "بيت.", start: 0, end: 3 };
  assert.equal(
    ankiFile([entry], {}, "tab", "rtl").split("\n")[3],
    '"<div dir=""rtl"">بيت</div>"\t"<div dir=""rtl""><b>بيت</b>.</div>"\t""',
  );
});
