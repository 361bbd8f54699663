import { Switch } from "../parts/controls";
import { canRead, isRead, showsReadings } from "../state/connection";
import type { TextDocument } from "./document";
import { rubyOf, tagOf, unspacedOf } from "./language";
import { type Paragraph, paragraphsOf, type Word } from "./words";

export function RubyWord({ spelling, reading, lang }: { spelling: string; reading: string; lang: string }) {
  const ruby = rubyOf(spelling, reading);
  return (
    <>
      {ruby.before}
      <ruby>
        {ruby.base}
        <rp>(</rp>
        <rt lang={unspacedOf(lang) === "ja" ? "ja" : "zh-Latn"}>{ruby.reading}</rt>
        <rp>)</rp>
      </ruby>
      {ruby.after}
    </>
  );
}

/** The lines of a text that are not blank, with what is known of how their words are read. */
export function Paragraphs({ text, words, lang }: { text: string; words: readonly Word[]; lang: string }) {
  return paragraphsOf(text, words)
    .filter((paragraph) => paragraph.text.trim())
    .map((paragraph) => <p key={paragraph.start}>{withReadings(paragraph, lang)}</p>);
}

function withReadings({ text, words }: Paragraph, lang: string) {
  const parts = [];
  let done = 0;
  for (const word of words) {
    if (!word.reading) continue;
    const spelling = text.slice(word.start, word.end);
    parts.push(text.slice(done, word.start), <RubyWord spelling={spelling} reading={word.reading} lang={lang} />);
    done = word.end;
  }
  return [...parts, text.slice(done)];
}

/** A switch, and the text with its readings where that is on: a text that is edited has no room for them. */
export function Readings({ document, label }: { document: TextDocument; label: string }) {
  const lang = document.lang.value;
  if (!canRead(lang) || !document.text.value.trim()) return null;
  return (
    <>
      <ReadingsSwitch lang={lang} />
      {isRead(lang) && (
        <section class="readings" aria-label={`${label}: how it is read`} lang={tagOf(lang)}>
          <Paragraphs text={document.text.value} words={document.words.value} lang={lang} />
        </section>
      )}
    </>
  );
}

export function ReadingsSwitch({ lang }: { lang: string }) {
  return (
    <Switch
      label={unspacedOf(lang) === "ja" ? "With readings (kana)" : "With readings (pinyin)"}
      value={showsReadings.value}
      onChange={(isOn) => (showsReadings.value = isOn)}
    />
  );
}
