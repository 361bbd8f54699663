import { brief } from "../state/brief";
import { status } from "../state/connection";
import { harder, newSentence, nextChapter, nextList, simpler } from "./actions";
import { compare, isComparing } from "./compare";
import { countdown, draft, isPreparing, isWorking, note, past, phase, stop, undo } from "./generate";

/** What can be done with the text as a whole, and what is being done. */
export function Toolbar() {
  const isEmpty = !draft.text.value.trim();
  const isOff = isWorking.value || status.value !== "ready" || isEmpty;
  const [lower, higher] = [nextList(-1), nextList(1)];
  return (
    <div class="toolbar">
      <div class="buttons" role="group" aria-label="Actions on the text">
        <Action
          label="Simpler"
          title={lower ? `Rewrite it in ${nameOf(lower)}` : NO_STEP}
          isOff={isOff || !lower}
          act={simpler}
        />
        <Action
          label="Harder"
          title={higher ? `Write it anew in ${nameOf(higher)}` : NO_STEP}
          isOff={isOff || !higher}
          act={harder}
        />
        <Action label="Next chapter" title="Go on in the same words" isOff={isOff} act={nextChapter} />
        <Action label="New sentence" title="Write the sentence of the caret anew" isOff={isOff} act={newSentence} />
        <Action
          label="Compare"
          title="Write it with another number of words, side by side"
          isOff={isEmpty || isWorking.value || !!brief.value.myList || !!brief.value.level}
          isPressed={isComparing.value}
          act={compare}
        />
        <Action
          label="Undo"
          title="Bring back the text before the last action; once more, and the newer one is back"
          isOff={!past.value || isWorking.value}
          act={undo}
        />
      </div>
      <Progress />
    </div>
  );
}

const NO_STEP = "This list has no further step";

function nameOf({ numWords, level }: { numWords: number; level: string }): string {
  return level || `the ${numWords.toLocaleString("en")} most frequent words`;
}

interface ActionProps {
  label: string;
  title: string;
  isOff: boolean;
  isPressed?: boolean;
  act: () => unknown;
}

function Action({ label, title, isOff, isPressed, act }: ActionProps) {
  return (
    <button
      type="button"
      title={title}
      // A button that is disabled loses the focus.
      aria-disabled={isOff}
      {...(isPressed !== undefined && { "aria-pressed": isPressed })}
      onClick={() => !isOff && void act()}
    >
      {label}
    </button>
  );
}

function onStop(event: MouseEvent): void {
  stop();
  // The button goes; who pressed it by key is led to the text.
  if (event.detail === 0) draft.asked.value = { start: draft.caret, end: draft.caret };
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
      {isWorking.value && (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      )}
    </div>
  );
}
