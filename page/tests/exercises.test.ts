import assert from "node:assert/strict";
import { test } from "node:test";
import type { Exercise } from "../src/api/types";
import { keyOf, printedOrder, withoutItem } from "../src/exercises/making";

const made = (exercise: Partial<Exercise>): Exercise => ({ kind: "order", instruction: null, items: [], ...exercise });

const MATCHING = made({
  kind: "matching",
  items: ["dog", "house", "river"].map((word) => ({ word, gloss: `a ${word}` })),
  shown: [1, 2, 0],
});
const ORDER = made({ items: ["One.", "Two.", "Three."].map((sentence) => ({ sentence })), shown: [2, 0, 1] });

test("a key has the answers in the order in which the items are printed", () => {
  assert.deepEqual(keyOf(MATCHING), ["c", "a", "b"]);
  assert.deepEqual(printedOrder(ORDER), [2, 0, 1]);
  assert.deepEqual(keyOf(ORDER), ["3", "1", "2"]);
  assert.deepEqual(keyOf(made({ kind: "questions", items: [{ options: ["home", "school"], answer: 1 }] })), [
    "b) school",
  ]);
  assert.deepEqual(keyOf(made({ kind: "true_false", items: [{ answer: true }, { answer: false }] })), ["✓", "✗"]);
  assert.deepEqual(keyOf(made({ kind: "dictation", items: [{ sentence: "One." }] })), ["One."]);
});

test("what is left when an item is removed is an exercise with the right key", () => {
  const pairs = withoutItem(MATCHING, 1)!;
  assert.deepEqual(
    [pairs.items.map(({ word }) => word), pairs.shown],
    [
      ["dog", "river"],
      [1, 0],
    ],
  );
  assert.deepEqual(keyOf(pairs), ["b", "a"]);
  assert.deepEqual(keyOf(withoutItem(ORDER, 0)!), ["2", "1"]);
  // One sentence has no order, and an exercise has an item.
  assert.equal(withoutItem(pairs, 0), null);
  assert.equal(withoutItem(made({ kind: "dictation", items: [{ sentence: "One." }] }), 0), null);
});
