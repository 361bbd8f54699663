import type { ComponentChildren } from "preact";
import type { Report } from "../api/types";
import type { TextDocument } from "../text/document";
import { directionOf, tagOf } from "../text/language";
import { bandName, isMissing, type Word } from "../text/words";

interface Props {
  document: TextDocument;
  /** Required words that do not come. */
  unused?: readonly string[];
  /** Puts what is not in the list into words that are. */
  onRewrite?: (() => void) | null;
}

/** What a text is made of: coverage, bands, new words, and the words that are not in the list. */
export function ReportPanel({ document, unused = [], onRewrite = null }: Props) {
  const report = document.report.value;
  return (
    <section class="report" aria-label="What the text is made of" aria-busy={document.isChecking.value}>
      {document.fault.value && document.fault.value.kind === "request" && (
        <p class="notice is-fault" role="alert">
          {document.fault.value.message}
        </p>
      )}
      {report ? (
        <>
          <Ring report={report} />
          <Bands report={report} />
          <NewWords document={document} report={report} />
          <Unused words={unused} lang={document.lang.value} />
          <NotAllowed document={document} report={report} onRewrite={onRewrite} />
          <SentencesWithOne document={document} report={report} />
          <Names document={document} report={report} />
        </>
      ) : (
        <p class="hint">What a text is made of is shown here.</p>
      )}
    </section>
  );
}

const RADIUS = 40;
const AROUND = 2 * Math.PI * RADIUS;

/** Return a share in percent; 100 only where nothing is missing. */
export function percent(part: number, whole: number): string {
  return part === whole ? "100%" : `${Math.floor((1_000 * part) / whole) / 10}%`;
}

export function Ring({ report }: { report: Report }) {
  const { num_words, num_symbols, num_new, num_names, num_distinct_words, coverage_with_new } = report;
  const share = coverage_with_new === null ? "no words" : percent(coverage_with_new, 1);
  const allowed = AROUND * (coverage_with_new ?? 0);
  const label = coverage_with_new === null ? "There are no words." : `${share} of ${num_words} words are in the list.`;
  return (
    <div class="ring" role="img" aria-label={label}>
      <svg viewBox="0 0 100 100" width="120" height="120" aria-hidden="true">
        <circle class="ring-all" cx="50" cy="50" r={RADIUS} />
        <circle
          class="ring-allowed"
          cx="50"
          cy="50"
          r={RADIUS}
          stroke-dasharray={`${allowed} ${AROUND}`}
          transform="rotate(-90 50 50)"
        />
        <text x="50" y="56" text-anchor="middle">
          {share}
        </text>
      </svg>
      <p>
        {num_words} words, {num_distinct_words} different
        {num_new > 0 && `, ${num_new} new`}
        {num_names > 0 && `, ${num_names} ${num_names === 1 ? "name" : "names"}`}
        {num_symbols > 0 && `, ${num_symbols} symbols`}
      </p>
    </div>
  );
}

function Bands({ report }: { report: Report }) {
  const most = Math.max(...report.bands.map(({ num_words }) => num_words), 1);
  return (
    <table class="bands">
      <caption>By rank</caption>
      <tbody>
        {report.bands.map(({ num_words }, band) => (
          <tr key={band}>
            <th scope="row">
              <span class={`word band-${band}`}>{bandName(band)}</span>
            </th>
            <td class="bar">
              <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                <rect class={`bar-${band}`} width={(100 * num_words) / most} height="8" />
              </svg>
            </td>
            <td class="number">{num_words}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function NewWords({ document, report }: { document: TextDocument; report: Report }) {
  const met = report.new_words.filter(({ count }) => count > 0);
  if (!met.length) return null;
  const lemmas = new Map(report.new.map(({ word, lemma }) => [word.toLowerCase(), lemma]));
  return (
    <WordList title="New words">
      {met.map(({ word, count }) => {
        const lemma = lemmas.get(word.toLowerCase());
        return (
          <li key={word}>
            <WordButton document={document} spelling={word} isMeant={({ reason }) => reason === "new"} look="is-new" />
            {lemma && lemma !== word && (
              <>
                {" "}
                of <bdi lang={tagOf(document.lang.value)}>{lemma}</bdi>
              </>
            )}
            {times(count)}
          </li>
        );
      })}
    </WordList>
  );
}

function Unused({ words, lang }: { words: readonly string[]; lang: string }) {
  if (!words.length) return null;
  return (
    <WordList title="Words that must come, and do not yet">
      {words.map((word) => (
        <li key={word}>
          <bdi lang={tagOf(lang)}>{word}</bdi>
        </li>
      ))}
    </WordList>
  );
}

/** A list of a long text is longer than anybody reads. */
const MOST_SHOWN = 60;

function NotAllowed({
  document,
  report,
  onRewrite,
}: {
  document: TextDocument;
  report: Report;
  onRewrite: (() => void) | null;
}) {
  if (!report.num_not_allowed) return null;
  const text = document.text.value;
  const counts = new Map<string, { spelling: string; count: number }>();
  for (const word of document.words.value) {
    if (!isMissing(word)) continue;
    const spelling = text.slice(word.start, word.end);
    const known = counts.get(spelling.toLowerCase());
    if (known) known.count += 1;
    else counts.set(spelling.toLowerCase(), { spelling, count: 1 });
  }
  return (
    <WordList title="Not in the list">
      {[...counts.values()].slice(0, MOST_SHOWN).map(({ spelling, count }) => (
        <li key={spelling}>
          <WordButton document={document} spelling={spelling} isMeant={isMissing} look="is-not-allowed" />
          {times(count)}
        </li>
      ))}
      {counts.size > MOST_SHOWN && <li>and {(counts.size - MOST_SHOWN).toLocaleString("en")} others</li>}
      {onRewrite && (
        <li class="buttons">
          <button type="button" onClick={onRewrite}>
            Rewrite what is not in the list
          </button>
        </li>
      )}
    </WordList>
  );
}

/** Sentences to learn a word from: all others in them are known. */
function SentencesWithOne({ document, report }: { document: TextDocument; report: Report }) {
  const { sentences, num_sentences = 0, num_sentences_with_one = 0 } = report;
  if (!sentences) return null;
  const found = sentences.flatMap(({ text }, index) => (text === undefined ? [] : { text, index }));
  const show = (index: number): void => {
    const own = document.words.peek().filter(({ sentence, reason }) => sentence === index && reason !== "symbol");
    const word = own.find((each) => each.reason === "new" || isMissing(each));
    if (word) document.asked.value = { start: word.start, end: word.end };
  };
  return (
    <WordList title="Sentences with one word that is not in the list">
      <li class="hint">
        {num_sentences_with_one} of {num_sentences} sentences
      </li>
      {found.slice(0, MOST_SHOWN).map(({ text, index }) => (
        <li key={index}>
          <button type="button" class="link" title="Show it in the text" onClick={() => show(index)}>
            <bdi lang={tagOf(document.lang.value)}>{text}</bdi>
          </button>
        </li>
      ))}
      {found.length > MOST_SHOWN && <li>and {(found.length - MOST_SHOWN).toLocaleString("en")} others</li>}
    </WordList>
  );
}

function Names({ document, report: { names } }: { document: TextDocument; report: Report }) {
  if (!names.length) return null;
  return (
    <WordList title="Names">
      {names.slice(0, MOST_SHOWN).map(({ word, count }) => (
        <li key={word}>
          <WordButton document={document} spelling={word} isMeant={({ reason }) => reason === "name"} look="is-name" />
          {times(count)}
        </li>
      ))}
      {names.length > MOST_SHOWN && <li>and {(names.length - MOST_SHOWN).toLocaleString("en")} others</li>}
    </WordList>
  );
}

function times(count: number): string {
  return count > 1 ? ` ${count} times` : "";
}

function WordList({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="word-list">
      <h2>{title}</h2>
      <ul>{children}</ul>
    </section>
  );
}

interface WordButtonProps {
  document: TextDocument;
  spelling: string;
  isMeant: (word: Word) => boolean;
  /** The class of such words. */
  look: string;
}

/** A word that leads to its next place in the text. */
function WordButton({ document, spelling, isMeant, look }: WordButtonProps) {
  const lang = document.lang.value;
  function show(): void {
    const text = document.text.peek();
    const all = document.words.peek().filter((word) => {
      return isMeant(word) && text.slice(word.start, word.end).toLowerCase() === spelling.toLowerCase();
    });
    const next = all.find(({ end }) => end > document.caret) ?? all[0];
    if (next) document.asked.value = { start: next.start, end: next.end };
  }
  return (
    <button type="button" class="link" title="Show it in the text" onClick={show}>
      <bdi class={`word ${look}`} lang={tagOf(lang)} dir={directionOf(lang)}>
        {spelling}
      </bdi>
    </button>
  );
}
