import assert from "node:assert/strict";
import { test } from "node:test";
import { wordsTyped } from "../src/state/brief";
import { examplesFor, rubyOf, tagOf, unspacedOf } from "../src/text/language";
import { Offsets, partAround, piecesOf, type Word, wordsOf } from "../src/text/words";
import { sentencesOf } from "../src/text/sentences";

test("a list's name says which language without spaces it is of, and how its text is marked", () => {
  const cases: [string, string | null, string][] = [
    ["zh", "zh", "zh-Hans"],
    ["zh-CN", "zh", "zh-Hans"],
    ["zh-TW", "zh-Hant", "zh-Hant"],
    ["zh-Hant_school", "zh-Hant", "zh-Hant"],
    ["zh-Hans-HK", "zh", "zh-Hans"],
    ["ja_n5", "ja", "ja"],
    ["th", "th", "th"],
    ["pt_BR", null, "pt-BR"],
    ["zhx", null, "zhx"],
  ];
  for (const [id, unspaced, tag] of cases) assert.deepEqual([unspacedOf(id), tagOf(id)], [unspaced, tag], id);
  assert.equal(examplesFor("zh-TW")[1], "海邊的一天");
});

test("sentences end at wide marks, where nothing follows that goes on", () => {
  const cases: [string, string[]][] = [
    ["你好！他说。我们走吧……好？", ["你好！", "他说。", "我们走吧……", "好？"]],
    ["“你好！”他说。", ["“你好！”", "他说。"]],
    ["「食べたい。」と言った。帰った。", ["「食べたい。」と言った。", "帰った。"]],
    ["他想……，后来走了。", ["他想……，后来走了。"]],
    ["แมววิ่ง มันเห็นหมา", ["แมววิ่ง มันเห็นหมา"]],
    ["One… two. 好。Three.", ["One… two.", "好。", "Three."]],
  ];
  for (const [text, sentences] of cases) {
    assert.deepEqual(
      sentencesOf(text).map(({ start, end }) => text.slice(start, end)),
      sentences,
      text,
    );
  }
});

test("words of two units have their places and readings, and pieces end at wide marks", () => {
  const text = "𠮷祥长大了，去长城。";
  const at = (spelling: string): number => [...text].join("\0").split("\0").indexOf(spelling);
  const word = { start: at("长"), end: at("长") + 2, rank: 9, reason: "listed", lemma: null, reading: "zhǎngdà" };
  const report = { words: [word], not_allowed: [] } as unknown as Parameters<typeof wordsOf>[1];
  const [found] = wordsOf(text, report);
  assert.equal(text.slice(found!.start, found!.end), "长大");
  assert.equal(found!.reading, "zhǎngdà");
  const words: Word[] = [found!];
  assert.deepEqual(
    piecesOf({ start: 0, text, words }).map((piece) => piece.text),
    ["𠮷祥长大了，", "去长城。", ""],
  );
});

test("what is sent around a word of a text without spaces begins and ends at marks", () => {
  const text = `${"一".repeat(30)}。他长大了，${"二".repeat(30)}。`;
  const start = text.indexOf("长大");
  const { from, part } = partAround(text, { start, end: start + 2 }, 10, 10);
  assert.equal(part, "。他长大了");
  assert.equal(new Offsets(part).toPoints(start - from), 2);
});

test("words that are typed may have wide marks between them", () => {
  assert.deepEqual(wordsTyped("猫，狗、鸟；猫"), ["猫", "狗", "鸟"]);
});

test("kana stand beside what is read, and never all of a word", () => {
  const ruby = (spelling: string, reading: string): string[] => Object.values(rubyOf(spelling, reading));
  assert.deepEqual(ruby("食べる", "たべる"), ["", "食", "た", "べる"]);
  assert.deepEqual(ruby("お茶", "おちゃ"), ["お", "茶", "ちゃ", ""]);
  assert.deepEqual(ruby("東京", "とうきょう"), ["", "東京", "とうきょう", ""]);
  assert.deepEqual(ruby("长大", "zhǎngdà"), ["", "长大", "zhǎngdà", ""]);
});
