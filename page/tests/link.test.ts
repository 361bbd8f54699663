import assert from "node:assert/strict";
import { test } from "node:test";
import { type Brief, DEFAULT_BRIEF } from "../src/state/brief";
import { decodeBrief, encodeBrief } from "../src/write/link";

const BRIEF: Brief = {
  ...DEFAULT_BRIEF,
  prompt: "قصة عن كلب 🐕 في المدينة",
  lang: "ar",
  numWords: 2_000,
  added: ["آنا", "O'Brien; sen."],
  mustUse: ["نهر"],
  newWords: true,
  maxSentenceWords: 12,
  quality: "better",
};

test("a link gives back the settings that it was made of, in characters that any program leaves alone", async () => {
  const encoded = await encodeBrief(BRIEF);
  assert.match(encoded, /^[A-Za-z0-9_-]+$/);
  assert.deepEqual(await decodeBrief(encoded), BRIEF);
});

test("a link is short: the usual settings take no room", async () => {
  assert.ok((await encodeBrief(DEFAULT_BRIEF)).length < 8);
  assert.ok((await encodeBrief(BRIEF)).length < 250);
});

test("a list of one's own is not in a link", async () => {
  assert.equal((await decodeBrief(await encodeBrief({ ...BRIEF, myList: "Class 4b" }))).myList, "");
});

test("a damaged or hostile link is refused", async () => {
  const encoded = await encodeBrief(BRIEF);
  for (const bad of ["", "%%%", encoded.slice(0, 20), "A".repeat(9_000)]) await assert.rejects(decodeBrief(bad));
  const wrong = [{ numWords: "many" }, { added: [1] }, { quality: "best" }, { length: -5 }, { lang: null }];
  for (const members of wrong) {
    await assert.rejects(decodeBrief(await encodeBrief({ ...BRIEF, ...members } as unknown as Brief)), TypeError);
  }
});
