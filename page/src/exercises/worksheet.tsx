import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Exercise } from "../api/types";
import { source } from "../check/rewriting";
import { Switch } from "../parts/fields";
import { show } from "../state/tab";
import { LABELS, withoutItem } from "./exercise";
import { ExerciseItems } from "./exercise-items";
import { exercisesHandout } from "./exercise-sheet";
import { isMaking, made, material, put } from "./making";
import { SaveDialog } from "./save-dialog";

const showsKey = signal(true);

/** The exercises that came so far, and what can be done with them. */
export function Worksheet() {
  const section = useRef<HTMLElement>(null);
  const handout = exercisesHandout();
  const all = made.value?.exercises ?? [];

  function onRemove(exercise: Exercise, index: number, button: HTMLElement): void {
    const by = withoutItem(exercise, index);
    const buttons = [...section.current!.querySelectorAll<HTMLElement>(".item button")];
    const own = buttons.filter((each) => button.closest("section")!.contains(each));
    // The last row goes, for the others move up; or all of them.
    const gone = by ? own.slice(-1) : own;
    const at = buttons.indexOf(button);
    const next = [...buttons.slice(at), ...buttons.slice(0, at).reverse()].find((each) => !gone.includes(each));
    if (next) next.focus();
    else material.asked.value = { start: 0, end: 0 };
    put(exercise, by);
  }

  return (
    <section ref={section} class="page" aria-label="Exercises">
      {!isMaking.value && <LeftOut />}
      {all.map((exercise) => (
        <section key={exercise.kind} class="exercise" aria-label={LABELS[exercise.kind]}>
          <h2>{LABELS[exercise.kind]}</h2>
          <div lang={handout.lang} dir={handout.direction}>
            <input
              type="text"
              maxLength={200}
              dir="auto"
              placeholder="What learners are told to do"
              aria-label={`Instruction of ${LABELS[exercise.kind]}`}
              value={exercise.instruction ?? ""}
              readOnly={isMaking.value}
              onInput={(event) => put(exercise, { ...exercise, instruction: event.currentTarget.value || null })}
            />
            <ExerciseItems
              exercise={exercise}
              showsKey={showsKey.value}
              {...(!isMaking.value && { onRemove: (index, button) => onRemove(exercise, index, button) })}
            />
          </div>
        </section>
      ))}
      {!isMaking.value && all.length > 0 && (
        <div class="toolbar buttons">
          <button type="button" class="primary" aria-haspopup="dialog" onClick={() => (handout.open.value = "print")}>
            Print or save
          </button>
          <Switch label="Show the answers" isOn={showsKey.value} onChange={(isOn) => (showsKey.value = isOn)} />
        </div>
      )}
      {handout.open.value && <SaveDialog />}
    </section>
  );
}

/** Which kinds have fewer items than were asked for, and which sentences were not used. */
function LeftOut() {
  const all = made.value;
  if (!all) return null;
  const { left_out, num_sentences, num_unlisted_sentences, text } = all;
  return (
    <>
      {[...new Set(left_out.map(({ reason }) => reason))].map((why) => (
        <p key={why} class="hint">
          Fewer items than asked for, as {why}:{" "}
          {left_out
            .filter(({ reason }) => reason === why)
            .map(({ kind, num_items }) => `${LABELS[kind]} ${num_items}`)
            .join(", ")}
          .
        </p>
      ))}
      {num_unlisted_sentences > 0 && (
        <p class="hint">
          {num_unlisted_sentences} of {num_sentences} sentences were not used: they have words that are not in the list.{" "}
          <button
            type="button"
            onClick={() => {
              source.edit(text);
              show("check");
            }}
          >
            See them in Check
          </button>
        </p>
      )}
    </>
  );
}
