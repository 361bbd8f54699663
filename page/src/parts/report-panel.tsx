import type { ComponentChildren } from "preact";
import type { Report } from "../api/types";
import type { TextDocument } from "../text/document";
import { directionOf, tagOf } from "../text/language";
import { classOf } from "../text/lines";
import { bandName, isMissing, Offsets, type Word } from "../text/words";
import { Button } from "./controls";

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
          <Words document={document} title="New words" isMeant={({ reason }) => reason === "new"} />
          {unused.length > 0 && (
            <WordList title="Words that must come, and do not yet">
              {unused.map((word) => (
                <li key={word}>
                  <bdi lang={tagOf(document.lang.value)}>{word}</bdi>
                </li>
              ))}
            </WordList>
          )}
          <Words document={document} title="Not in the list" isMeant={isMissing}>
            {onRewrite && (
              <li class="buttons">
                <Button label="Rewrite what is not in the list" onClick={onRewrite} />
              </li>
            )}
          </Words>
          <SentencesWithOne document={document} report={report} />
          <Words document={document} title="Names" isMeant={({ reason }) => reason === "name"} />
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

/** A list of a long text is longer than anybody reads. */
const MOST_SHOWN = 60;

interface WordsProps {
  document: TextDocument;
  title: string;
  isMeant: (word: Word) => boolean;
  children?: ComponentChildren;
}

/** The different words of a kind, each of which leads to its next place in the text. */
function Words({ document, title, isMeant, children }: WordsProps) {
  const text = document.text.value;
  const lang = document.lang.value;
  const places = new Map<string, Word[]>();
  for (const word of document.words.value) {
    if (!isMeant(word)) continue;
    const key = text.slice(word.start, word.end).toLowerCase();
    const known = places.get(key);
    if (known) known.push(word);
    else places.set(key, [word]);
  }
  if (!places.size) return null;
  return (
    <WordList title={title}>
      {[...places].slice(0, MOST_SHOWN).map(([key, all]) => {
        const [first] = all as [Word];
        const spelling = text.slice(first.start, first.end);
        return (
          <li key={key}>
            <LinkTo document={document} place={() => all.find(({ end }) => end > document.caret) ?? first}>
              <bdi class={`word ${classOf(first)}`} lang={tagOf(lang)} dir={directionOf(lang)}>
                {spelling}
              </bdi>
            </LinkTo>
            {first.reason === "new" && first.lemma && first.lemma !== spelling && (
              <>
                {" "}
                of <bdi lang={tagOf(lang)}>{first.lemma}</bdi>
              </>
            )}
            {all.length > 1 && ` ${all.length} times`}
          </li>
        );
      })}
      <Others count={places.size - MOST_SHOWN} />
      {children}
    </WordList>
  );
}

/** Sentences to learn a word from: all others in them are known. */
function SentencesWithOne({ document, report: { sentences = [] } }: { document: TextDocument; report: Report }) {
  const found = sentences.filter(({ text }) => text);
  if (!found.length) return null;
  const unlistedFrom = (point: number): Word | undefined => {
    const start = new Offsets(document.text.peek()).toUnits(point);
    return document.words
      .peek()
      .find((word) => word.start >= start && word.reason !== "symbol" && (word.reason === "new" || isMissing(word)));
  };
  return (
    <details class="word-list">
      <summary>
        {found.length} of {sentences.length} sentences have one word that is not in the list
      </summary>
      <ul>
        {found.slice(0, MOST_SHOWN).map(({ start, text }) => (
          <li key={start}>
            <LinkTo document={document} place={() => unlistedFrom(start)}>
              <bdi lang={tagOf(document.lang.value)}>{text}</bdi>
            </LinkTo>
          </li>
        ))}
        <Others count={found.length - MOST_SHOWN} />
      </ul>
    </details>
  );
}

function Others({ count }: { count: number }) {
  return count > 0 ? <li>and {count.toLocaleString("en")} others</li> : null;
}

function WordList({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="word-list">
      <h2>{title}</h2>
      <ul>{children}</ul>
    </section>
  );
}

interface LinkProps {
  document: TextDocument;
  place: () => Word | undefined;
  children: ComponentChildren;
}

function LinkTo({ document, place, children }: LinkProps) {
  function show(): void {
    const word = place();
    if (word) document.asked.value = { start: word.start, end: word.end };
  }
  return (
    <button type="button" class="link" title="Show it in the text" onClick={show}>
      {children}
    </button>
  );
}
