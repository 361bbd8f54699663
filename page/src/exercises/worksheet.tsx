import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Exercise } from "../api/types";
import { source } from "../check/rewriting";
import { TitleAndSize } from "../exports/dialogs";
import { print } from "../exports/sheets";
import { Button, Dialog, Switch } from "../parts/controls";
import { FaultNotice } from "../parts/notice";
import { show } from "../parts/tabs";
import { LABELS, made, making, material, put, withoutItem } from "./making";
import { ExerciseItems, exercisesHandout, exerciseSheet } from "./sheet";

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
      {!making.isOn.value && <LeftOut />}
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
              readOnly={making.isOn.value}
              onInput={(event) => put(exercise, { ...exercise, instruction: event.currentTarget.value || null })}
            />
            <ExerciseItems
              exercise={exercise}
              showsKey={showsKey.value}
              {...(!making.isOn.value && { onRemove: (index, button) => onRemove(exercise, index, button) })}
            />
          </div>
        </section>
      ))}
      {!making.isOn.value && all.length > 0 && (
        <div class="toolbar buttons">
          <Button label="Print or save" isMain aria-haspopup="dialog" onClick={() => (handout.open.value = "print")} />
          <Switch label="Show the answers" value={showsKey.value} onChange={(isOn) => (showsKey.value = isOn)} />
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
          <Button
            label="See them in Check"
            onClick={() => {
              source.edit(text);
              show("check");
            }}
          />
        </p>
      )}
    </>
  );
}

const FILES = [
  { format: "docx", label: "Save for Word (.docx)", ending: "docx" },
  { format: "gift", label: "Save for Moodle (.gift)", ending: "gift" },
  { format: "qti", label: "Save for other platforms (QTI, .zip)", ending: "zip" },
  { format: "tsv", label: "Save cards for Anki (.tsv)", ending: "tsv" },
] as const;

/** Print the exercises, or save them as a file that the service makes. */
function SaveDialog() {
  const handout = exercisesHandout();
  const { withText } = handout.settings.value;
  function save(format: string, ending: string): void {
    const { exercises, text } = made.peek()!;
    const ofWord = { font_size: handout.settings.peek().size, ...(withText && { text }) };
    void handout.save("/v1/documents/worksheet", ending, { format, exercises, ...(format === "docx" && ofWord) });
  }
  return (
    <Dialog title="Print or save" onClose={() => (handout.open.value = null)}>
      <TitleAndSize handout={handout} />
      <Switch label="With the text" value={withText} onChange={(withText) => handout.change({ withText })} />
      <FaultNotice fault={handout.saving.fault.value} />
      <div class="buttons">
        <Button label="Print" isMain onClick={() => print(exerciseSheet()!)} />
        {FILES.map(({ format, label, ending }) => (
          <Button
            key={format}
            label={label}
            aria-disabled={handout.saving.isOn.value}
            onClick={() => !handout.saving.isOn.peek() && save(format, ending)}
          />
        ))}
      </div>
      <p class="hint">
        The answers are on a page of their own. Moodle and other platforms get no dictation; cards are of gaps and
        meanings.
      </p>
    </Dialog>
  );
}
