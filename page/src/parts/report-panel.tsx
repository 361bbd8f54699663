import type { Report } from "../api/types";
import type { TextDocument } from "../text/document";
import { bandName, isAllowed } from "../text/words";

/** What a text is made of: coverage, bands, and the words that are not in the list. */
export function ReportPanel({ document }: { document: TextDocument }) {
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
          <NotAllowed document={document} report={report} />
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
  const { num_words, num_allowed, num_new, num_distinct_words } = report;
  const share = percent(num_allowed + num_new, num_words);
  const allowed = (AROUND * (num_allowed + num_new)) / Math.max(num_words, 1);
  return (
    <div class="ring" role="img" aria-label={`${share} of ${num_words} words are in the list.`}>
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

function NotAllowed({ document, report }: { document: TextDocument; report: Report }) {
  if (!report.num_not_allowed) return null;
  const text = document.text.value;
  const counts = new Map<string, number>();
  for (const word of document.words.value) {
    if (isAllowed(word) || word.reason === "new") continue;
    const spelling = text.slice(word.start, word.end);
    counts.set(spelling, (counts.get(spelling) ?? 0) + 1);
  }
  return (
    <section class="not-allowed">
      <h3>Not in the list</h3>
      <ul>
        {[...counts].map(([spelling, count]) => (
          <li key={spelling}>
            <bdi class="word is-not-allowed">{spelling}</bdi>
            {count > 1 && ` ${count} times`}
          </li>
        ))}
      </ul>
    </section>
  );
}
