import assert from "node:assert/strict";
import { test } from "node:test";
import {
  authorVocabOf,
  DEFAULT_BRIEF,
  MAX_WORDS,
  MIN_WORDS,
  placeOfWords,
  SIZES,
  stepOf,
  toggled,
  vocabOf,
  wordsOfPlace,
  wordsTyped,
} from "../src/state/brief";
import { myLists } from "../src/state/lists";

test("the slider goes from the least to the most words, never back, and finds its place again", () => {
  assert.equal(wordsOfPlace(0), MIN_WORDS);
  assert.equal(wordsOfPlace(100), MAX_WORDS);
  for (let place = 0; place <= 100; place += 1) {
    assert.equal(placeOfWords(wordsOfPlace(place)), place);
    if (place) assert.ok(wordsOfPlace(place) > wordsOfPlace(place - 1));
  }
  for (const size of SIZES) assert.equal(wordsOfPlace(placeOfWords(size)), size);
  assert.equal(placeOfWords(5), 0);
  assert.equal(placeOfWords(50_000), 100);
});

test("simpler and harder go by steps, and end", () => {
  const at = (numWords: number, direction: -1 | 1) =>
    stepOf({ ...DEFAULT_BRIEF, numWords }, direction, [])?.numWords ?? null;
  assert.deepEqual(
    [300, 310, 1_000, 10_000].map((size) => at(size, -1)),
    [null, 300, 500, 5_000],
  );
  assert.deepEqual(
    [300, 310, 1_000, 10_000].map((size) => at(size, 1)),
    [500, 500, 2_000, null],
  );
});

test("levels are steps too, in the order of their numbers, and a list of one's own has none", () => {
  const levels = ["top-10000", "top-500", "top-2000"];
  assert.equal(stepOf({ ...DEFAULT_BRIEF, level: "top-2000" }, -1, levels)?.level, "top-500");
  assert.equal(stepOf({ ...DEFAULT_BRIEF, level: "top-2000" }, 1, levels)?.level, "top-10000");
  assert.equal(stepOf({ ...DEFAULT_BRIEF, level: "top-10000" }, 1, levels), null);
  assert.equal(stepOf({ ...DEFAULT_BRIEF, level: "gone" }, 1, levels), null);
  assert.equal(stepOf({ ...DEFAULT_BRIEF, myList: "mine" }, 1, levels), null);
});

test("typed words are divided at commas and lines, and told once", () => {
  assert.deepEqual(wordsTyped(" Anna, in front of;anna\n,geranium "), ["anna", "in front of", "geranium"]);
});

test("a word of the prompt is allowed with its forms, and taken back with them", () => {
  const map = { word: "map", rank: 1_755, forms: ["maps"] };
  assert.deepEqual(toggled(["Anna", "maps"], map), ["Anna", "map", "maps"]);
  assert.deepEqual(toggled(["map", "Anna", "maps"], map), ["Anna"]);
});

test("an excluded word is not added", () => {
  const vocab = vocabOf({ ...DEFAULT_BRIEF, added: ["Anna", "Bob"], excluded: ["anna"] });
  assert.deepEqual(vocab.extra_words, ["Bob"]);
  assert.deepEqual(vocab.exclude_words, ["anna"]);
});

test("a list of one's own says whether its words have all their forms, and take 's", () => {
  const own = { name: "4b", lang: "en", words: ["go", "dog"] };
  const asked = { ...DEFAULT_BRIEF, myList: "4b" };
  myLists.value = [own];
  assert.deepEqual(vocabOf(asked), { lang: "en", words: own.words, numbers: true });
  myLists.value = [{ ...own, options: { unit: "lemma", possessive: true } }];
  assert.deepEqual(vocabOf(asked), { lang: "en", words: own.words, unit: "lemma", possessive: true, numbers: true });
  myLists.value = [];
});

test("a brief asks for required words, new ones and short sentences", () => {
  const vocab = authorVocabOf({
    ...DEFAULT_BRIEF,
    mustUse: ["river"],
    anyForm: false,
    newWords: true,
    maxSentenceWords: 9,
  });
  assert.deepEqual(vocab.must_use, [{ word: "river", any_form: false }]);
  assert.deepEqual(vocab.new_words, { n_words: 3_000, per_100: 2 });
  assert.equal(vocab.max_sentence_words, 9);
  const none = authorVocabOf({ ...DEFAULT_BRIEF, newWords: true, newWordsFrom: 1_000 });
  assert.equal("new_words" in none || "must_use" in none, false);
});
