import { computed } from "@preact/signals";
import { ExportMenu } from "../exports/dialogs";
import { Button, StopButton } from "../parts/controls";
import { FaultNotice } from "../parts/notice";
import { ReportPanel } from "../parts/report-panel";
import { brief, change } from "../state/brief";
import { status } from "../state/connection";
import { Editor } from "../text/editor";
import { directionOf, examplesFor, tagOf } from "../text/language";
import { Readings } from "../text/readings";
import { unusedOf } from "../text/words";
import { harder, newSentence, nextChapter, nextList, rewriteUnlisted, simpler, wordActions } from "./actions";
import { BriefForm } from "./brief-form";
import { compare, Compared, isComparing } from "./compare";
import { answered, countdown, draft, isPreparing, isWorking, past, phase, task, undo, write } from "./generate";

/** Required words that the draft lacks: as the service says, until the draft is edited. */
const unused = computed(() => {
  const { mustUse, anyForm } = brief.value;
  const told = answered.value;
  if (told?.vocab.must_use && told.text === draft.text.value) {
    const lacking = new Set(told.vocab.must_use.filter(({ count, used }) => used < count).map(({ word }) => word));
    if (told.vocab.must_use.length === mustUse.length) return mustUse.filter((word) => lacking.has(word));
  }
  return unusedOf(mustUse, anyForm, draft.text.value, draft.words.value);
});

export function WriteTab() {
  const canRewrite = !isWorking.value && status.value === "ready";
  return (
    <div class={isComparing.value ? "columns is-comparing" : "columns"}>
      <BriefForm />
      <main class="page">
        <Compared>
          <Editor
            document={draft}
            label="Text"
            placeholder="The text comes here. You can also type or paste one."
            actions={wordActions}
          />
        </Compared>
        {!isWorking.value && !isComparing.value && <Readings document={draft} label="Text" />}
        <Toolbar />
      </main>
      {!isComparing.value && (
        <ReportPanel
          document={draft}
          unused={unused.value}
          onRewrite={canRewrite ? () => void rewriteUnlisted() : null}
        />
      )}
    </div>
  );
}

/** Below the text: what can be done with it now, or what is being done. */
function Toolbar() {
  const isEmpty = !draft.text.value.trim();
  return (
    <div class={`toolbar ${isWorking.value ? "is-working" : ""}`}>
      <FaultNotice fault={task.fault.value} />
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
      {!isEmpty && (
        <>
          {lower && <Action label="Simpler" title={`Rewrite it in ${nameOf(lower)}`} act={simpler} />}
          {higher && <Action label="Harder" title={`Write it anew in ${nameOf(higher)}`} act={harder} />}
          <Action label="Next chapter" title="Go on in the same words" act={nextChapter} />
          <Action label="New sentence" title="Write the sentence of the caret anew" act={newSentence} />
        </>
      )}
      {(isComparing.value || !(isEmpty || myList || level)) && (
        <Button
          key="compare"
          label="Compare"
          title="Write it with another number of words, side by side"
          aria-pressed={isComparing.value}
          onClick={compare}
        />
      )}
      {past.value && (
        <Button
          key="undo"
          label="Undo"
          title="Bring back the text before the last action; once more, and the newer one is back"
          onClick={undo}
        />
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
  // A button that is disabled loses the focus.
  return <Button label={label} title={title} aria-disabled={isOff} onClick={() => !isOff && void act()} />;
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
        <Button key={prompt} label={prompt} lang={tagOf(lang)} dir={directionOf(lang)} onClick={() => begin(prompt)} />
      ))}
    </div>
  );
}

function focusText(): void {
  draft.asked.value ??= { start: draft.caret, end: draft.caret };
}

function Progress() {
  const isBusy = isWorking.value && phase.value === "busy";
  return (
    <div class="progress">
      <span role="status">
        {!isWorking.value && task.message.value}
        {isWorking.value &&
          phase.value === "waiting" &&
          (isPreparing.value ? "The list is being prepared. Its first text takes longer…" : "The model is thinking…")}
        {isWorking.value && phase.value === "writing" && "Writing…"}
        {isBusy && "The service is busy. The page tries again by itself"}
      </span>
      {/* Outside of the status: a screen reader need not count. */}
      {isBusy && <span> in {countdown.value} s.</span>}{" "}
      {isWorking.value && <StopButton onStop={() => task.stop()} next={focusText} />}
    </div>
  );
}
