import assert from "node:assert/strict";
import { test } from "node:test";
import { minus, union } from "../src/lists/combine";
import { csvFile } from "../src/lists/csv";
import { MAX_LIST_WORDS, readWords } from "../src/lists/read-words";
import { decoded, FileError } from "../src/parts/read-file";

test("words stand one a line, and what is no word is told with its line", () => {
  const { words, faults } = readWords(
    `cat\r\n\r\n- dog \n42\ncat\n${"a".repeat(101)}\nin  front of\n2. mouse\nda\u200bte`,
  );
  assert.deepEqual(words, ["cat", "dog", "in front of", "mouse"]);
  assert.deepEqual(
    faults.map(({ line, reason }) => [line, reason]),
    [
      [4, "it has no letters"],
      [5, "it is in line 1 already"],
      [6, "longer than 100 characters"],
      [9, "it has characters that cannot be seen"],
    ],
  );
});

test("a word is the same however its letters are composed, and another with other capitals", () => {
  const { words, faults } = readWords("été\ne\u0301te\u0301\nÉté");
  assert.deepEqual(words, ["été", "Été"]);
  assert.deepEqual(faults, [{ line: 2, text: "e\u0301te\u0301", reason: "it is in line 1 already" }]);
});

test("a Persian word keeps its joiner", () => {
  assert.deepEqual(readWords("می\u200cشود\nکتاب").words, ["می\u200cشود", "کتاب"]);
});

test("of a table the column named word is read, wherever it stands", () => {
  const { words, faults, column } = readWords(
    '\ufeffrank;Word;note\n1;der;"a; b"\n2;Haus;"two\nlines"\n3;;nothing\n4;Baum;',
  );
  assert.deepEqual(words, ["der", "Haus", "Baum"]);
  assert.equal(column, "word");
  assert.deepEqual(faults, [{ line: 5, text: "", reason: "there is no word in this line" }]);
});

test("of a table without names the first column is read", () => {
  const { words, column } = readWords('"cat, big","a ""pet"""\ndog,b\n');
  assert.deepEqual(words, ["cat, big", "dog"]);
  assert.equal(column, null);
});

test("a single line may have many words", () => {
  assert.deepEqual(readWords("cat, dog, fox").words, ["cat", "dog", "fox"]);
});

test("a list ends at the most words that the service takes", () => {
  const { words, faults } = readWords(Array.from({ length: MAX_LIST_WORDS + 1 }, (_, index) => `w${index}`).join("\n"));
  assert.equal(words.length, MAX_LIST_WORDS);
  assert.deepEqual(faults, [{ line: 50_001, text: "w50000", reason: "a list has at most 50,000 words" }]);
});

test("a list that is saved as CSV is read again as it was", () => {
  const words = ["cat", "in front of", 'the "end"', "a, b", "l'", "=a()", "-ness", "'-s", "'tis", "+a", "@a"];
  assert.deepEqual(
    readWords(
      csvFile(
        ["word"],
        words.map((word) => [word]),
      ),
    ).words,
    words,
  );
});

test("the union has the words of the first list first, each once", () => {
  assert.deepEqual(union(["b", "a"], ["c", "a", "d"]), ["b", "a", "c", "d"]);
});

test("a word in other capitals is taken away with the listed one, and a name stays", () => {
  assert.deepEqual(minus(["The", "may", "May", "cat"], ["the", "May"], "en"), ["may", "cat"]);
  assert.deepEqual(minus(["hund", "Hund"], ["Hund"], "de"), ["hund"]);
  assert.deepEqual(minus(["Iğdır", "ısı", "İyi"], ["iyi", "ığdır"], "tr"), ["ısı"]);
});

test("a file is read in the encodings that programs save lists in, and one that is no text is refused", () => {
  const utf16 = new Uint8Array([0xff, 0xfe, ...Buffer.from("größe", "utf16le")]);
  for (const bytes of [Buffer.from("größe"), Buffer.from("\ufeffgröße"), utf16, Buffer.from("größe", "latin1")]) {
    assert.deepEqual(readWords(decoded(new Uint8Array(bytes), "a.csv")).words, ["größe"]);
  }
  assert.throws(() => decoded(new Uint8Array([0x50, 0x4b, 0, 1]), "a.xlsx"), FileError);
});
