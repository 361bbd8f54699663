import { Dialog } from "../parts/dialog";
import { BANDS, bandName } from "../text/words";
import { NumberField } from "../parts/fields";
import type { Choice } from "./gap-fill";
import type { Handout } from "./handout";
import { TitleAndSize } from "./print-dialog";
import { GapSheet, print } from "./sheets";

const KINDS: readonly { kind: Choice["kind"]; label: string }[] = [
  { kind: "every", label: "Every so many words" },
  { kind: "new", label: "The new words" },
  { kind: "unlisted", label: "The words that are not in the list" },
  { kind: "band", label: "The words of a band" },
];

const OF_KIND: Readonly<Record<Choice["kind"], Choice>> = {
  every: { kind: "every", nth: 7 },
  new: { kind: "new" },
  unlisted: { kind: "unlisted" },
  band: { kind: "band", band: 1 },
};

/** Print the text with gaps. */
export function GapsDialog({ handout }: { handout: Handout }) {
  const { gaps, seed } = handout.settings.value;
  const { answers, bank } = handout.gapFill.value;
  return (
    <Dialog title="Gap-fill sheet" onClose={() => (handout.open.value = null)}>
      <TitleAndSize handout={handout} />
      <fieldset class="choices">
        <legend>Leave out</legend>
        {KINDS.map(({ kind, label }) => (
          <label key={kind}>
            <input
              type="radio"
              name="gaps"
              checked={gaps.kind === kind}
              onChange={() => handout.change({ gaps: OF_KIND[kind] })}
            />
            {label}
          </label>
        ))}
      </fieldset>
      {gaps.kind === "every" && (
        <NumberField
          label="One word of how many"
          value={gaps.nth}
          least={2}
          most={50}
          onChange={(nth) => handout.change({ gaps: { kind: "every", nth: nth ?? 7 } })}
        />
      )}
      {gaps.kind === "band" && (
        <label class="field">
          <span>Rank</span>
          <select
            value={gaps.band}
            onChange={(event) => handout.change({ gaps: { kind: "band", band: Number(event.currentTarget.value) } })}
          >
            {[...BANDS.keys(), BANDS.length].map((band) => (
              <option key={band} value={band}>
                {bandName(band)}
              </option>
            ))}
          </select>
        </label>
      )}
      <p role="status">
        {answers.length === 0
          ? "There is no such word in this text."
          : answers.length === 1
            ? "One gap."
            : `${answers.length} gaps.`}
      </p>
      {bank.length > 0 && (
        <p class="hint bank" lang={handout.lang} dir={handout.direction}>
          {bank.slice(0, 40).join(" · ")}
          {bank.length > 40 && " …"}
        </p>
      )}
      <div class="buttons">
        <button
          type="button"
          class="primary"
          disabled={!answers.length}
          onClick={() => print(<GapSheet handout={handout} />)}
        >
          Print
        </button>
        <button type="button" disabled={answers.length < 2} onClick={() => handout.change({ seed: seed + 1 })}>
          Shuffle the words
        </button>
      </div>
      <p class="hint">The answers are on a page of their own.</p>
    </Dialog>
  );
}
