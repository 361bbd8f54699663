import { ExportMenu } from "../exports/export-menu";
import { FaultNotice } from "../parts/notice";
import { StopButton } from "../parts/stop-button";
import { brief, change } from "../state/brief";
import { status } from "../state/connection";
import { directionOf, tagOf } from "../text/language";
import { harder, newSentence, nextChapter, nextList, simpler } from "./actions";
import { compare, isComparing } from "./compare";
import { examplesFor } from "./examples";
import { countdown, draft, fault, isPreparing, isWorking, note, past, phase, stop, undo, write } from "./generate";

/** Below the text: what can be done with it now, or what is being done. */
export function Toolbar() {
  const isEmpty = !draft.text.value.trim();
  return (
    <div class={`toolbar ${isWorking.value ? "is-working" : ""}`}>
      <FaultNotice fault={fault.value} />
      <Progress />
      {!isWorking.value && (
        <>
          <Actions isEmpty={isEmpty} />
          <ExportMenu document={draft} name="draft" />
          {isEmpty && <Examples />}
        </>
      )}
    </div>
  );
}

function Actions({ isEmpty }: { isEmpty: boolean }) {
  const [lower, higher] = [nextList(-1), nextList(1)];
  const { myList, level } = brief.value;
  if (isEmpty && !past.value && !isComparing.value) return null;
  return (
    <div class="buttons" role="group" aria-label="Actions on the text">
      {!isEmpty && lower && (
        <Action key="simpler" label="Simpler" title={`Rewrite it in ${nameOf(lower)}`} act={simpler} />
      )}
      {!isEmpty && higher && (
        <Action key="harder" label="Harder" title={`Write it anew in ${nameOf(higher)}`} act={harder} />
      )}
      {!isEmpty && <Action key="next" label="Next chapter" title="Go on in the same words" act={nextChapter} />}
      {!isEmpty && (
        <Action key="sentence" label="New sentence" title="Write the sentence of the caret anew" act={newSentence} />
      )}
      {(isComparing.value || !(isEmpty || myList || level)) && (
        <button
          key="compare"
          type="button"
          title="Write it with another number of words, side by side"
          aria-pressed={isComparing.value}
          onClick={compare}
        >
          Compare
        </button>
      )}
      {past.value && (
        <button
          key="undo"
          type="button"
          title="Bring back the text before the last action; once more, and the newer one is back"
          onClick={undo}
        >
          Undo
        </button>
      )}
    </div>
  );
}

function nameOf({ numWords, level }: { numWords: number; level: string }): string {
  return level || `the ${numWords.toLocaleString("en")} most frequent words`;
}

/** What the model does with the text. */
function Action({ label, title, act }: { label: string; title: string; act: () => unknown }) {
  const isOff = status.value !== "ready";
  return (
    // A button that is disabled loses the focus.
    <button type="button" title={title} aria-disabled={isOff} onClick={() => !isOff && void act()}>
      {label}
    </button>
  );
}

/** Requests that a click fills in and sends. */
function Examples() {
  const { lang } = brief.value;
  function begin(prompt: string): void {
    change({ prompt });
    if (status.peek() === "ready") void write();
  }
  return (
    <div class="examples" role="group" aria-label="Examples">
      <p class="hint">Or begin with an example:</p>
      {examplesFor(lang).map((prompt) => (
        <button key={prompt} type="button" lang={tagOf(lang)} dir={directionOf(lang)} onClick={() => begin(prompt)}>
          {prompt}
        </button>
      ))}
    </div>
  );
}

function focusText(): void {
  draft.asked.value ??= { start: draft.caret, end: draft.caret };
}

function Progress() {
  return (
    <div class="progress">
      <span role="status">
        {phase.value === "waiting" &&
          (isPreparing.value ? "The list is being prepared. Its first text takes longer…" : "The model is thinking…")}
        {phase.value === "writing" && "Writing…"}
        {phase.value === "busy" && "The service is busy. The page tries again by itself"}
        {phase.value === "idle" && note.value}
      </span>
      {/* Outside of the status: a screen reader need not count. */}
      {phase.value === "busy" && <span> in {countdown.value} s.</span>}{" "}
      {isWorking.value && <StopButton onStop={stop} next={focusText} />}
    </div>
  );
}
