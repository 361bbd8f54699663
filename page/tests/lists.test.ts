import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReadVocabulary } from "../src/api/types";
import { minus, union } from "../src/lists/combine-form";
import { entriesUpTo, wordsOf } from "../src/lists/edit";
import { csvFile } from "../src/exports/files";

const read: ReadVocabulary = {
  entries: [
    { word: "Hund", level: "A1", forms: ["Hunde"] },
    { word: "gehen", level: "A2", forms: ["ging", "gegangen"] },
    { word: "Katze", level: "A1", forms: [] },
    { word: "Hunde", level: null, forms: [] },
    { word: "Haus", level: "B1", forms: ["Häuser"] },
  ],
  levels: ["A1", "A2", "B1"],
  columns: { word: "Wort", level: "Stufe" },
  shapes: [],
  encoding: "UTF-8",
  left_out: [],
  num_left_out: 0,
};

test("words are taken up to a level, each before its forms and once", () => {
  const upTo = (level: string): string[] => wordsOf(entriesUpTo(read, level));
  assert.deepEqual(upTo(""), ["Hund", "Hunde", "gehen", "ging", "gegangen", "Katze", "Haus", "Häuser"]);
  assert.deepEqual(upTo("A1"), ["Hund", "Hunde", "Katze"]);
  assert.deepEqual(upTo("A2"), ["Hund", "Hunde", "gehen", "ging", "gegangen", "Katze"]);
});

test("a cell that a spreadsheet would compute begins with a mark", () => {
  assert.equal(csvFile([["word"], ["=1+1"], ['a "b"'], ["'-c"]]), '\ufeffword\r\n\'=1+1\r\n"a ""b"""\r\n\'\'-c\r\n');
});

test("the union has the words of the first list first, each once", () => {
  assert.deepEqual(union(["b", "a"], ["c", "a", "d"]), ["b", "a", "c", "d"]);
});

test("a word in other capitals is taken away with the listed one, and a name stays", () => {
  assert.deepEqual(minus(["The", "may", "May", "cat"], ["the", "May"], "en"), ["may", "cat"]);
  assert.deepEqual(minus(["hund", "Hund"], ["Hund"], "de"), ["hund"]);
  assert.deepEqual(minus(["Iğdır", "ısı", "İyi"], ["iyi", "ığdır"], "tr"), ["ısı"]);
});
