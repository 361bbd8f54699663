import type { VNode } from "preact";
import type { Exercise } from "../api/types";
import { type Handout, handoutOf } from "../exports/handout";
import { Sheet } from "../exports/sheets";
import { Button } from "../parts/controls";
import { Paragraphs } from "../text/readings";
import { keyOf, letter, made, material, printedOrder } from "./making";

export function exercisesHandout(): Handout {
  return handoutOf(material, "exercises");
}

/** The exercises for learners, and the key on a page of its own; null where there are none. */
export function exerciseSheet(): VNode | null {
  const handout = exercisesHandout();
  const all = made.value;
  if (!all?.exercises.length) return null;
  return (
    <Sheet handout={handout}>
      {handout.settings.value.withText && <Paragraphs text={all.text} words={[]} lang={handout.lang} />}
      {all.exercises.map((exercise, index) => (
        <section key={index} class="exercise">
          <h2>
            {index + 1}. {exercise.instruction}
          </h2>
          <ExerciseItems exercise={exercise} />
        </section>
      ))}
      <section class="key">
        <h2 lang="en">Key</h2>
        {all.exercises.map((exercise, index) => (
          <section key={index}>
            <h3>
              {index + 1}. {exercise.instruction}
            </h3>
            <ol>
              {keyOf(exercise).map((answer, row) => (
                <li key={row}>{answer}</li>
              ))}
            </ol>
          </section>
        ))}
      </section>
    </Sheet>
  );
}

interface Props {
  exercise: Exercise;
  showsKey?: boolean;
  onRemove?: (index: number, button: HTMLButtonElement) => void;
}

/** The items of an exercise as a learner gets them, on the screen with what their teacher needs. */
export function ExerciseItems({ exercise, showsKey = false, onRemove }: Props) {
  const answers = keyOf(exercise);
  return (
    <ol class="items">
      {printedOrder(exercise).map((index, row) => (
        <li key={row}>
          <div class="item">
            <Asked exercise={exercise} index={index} isSaid={showsKey} />
            {showsKey && <b class="answer">{answers[row]}</b>}
            {onRemove && (
              <Button
                label="×"
                class="link"
                lang="en"
                aria-label={`Remove item ${row + 1}`}
                onClick={(event) => onRemove(index, event.currentTarget)}
              />
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}

/** What is asked by an item; `isSaid` tells whether what is dictated stands beside it. */
function Asked({ exercise, index, isSaid }: { exercise: Exercise; index: number; isSaid: boolean }) {
  const { kind, items, shown = [] } = exercise;
  const { question, statement, sentence, before, after, word, options } = items[index]!;
  switch (kind) {
    case "matching":
      return (
        <div class="pair">
          <span>
            {word} <Line />
          </span>
          <span>
            {letter(index)}) <bdi>{items[shown[index]!]?.gloss}</bdi>
          </span>
        </div>
      );
    case "order":
      return (
        <span>
          <Line /> {sentence}
        </span>
      );
    case "dictation":
      return isSaid ? null : <Line isWide />;
    default:
      return (
        <div>
          {question ?? statement ?? before}
          {kind === "true_false" && " "}
          {kind !== "questions" && <Line />}
          {after}
          <div class="options">
            {options?.map((option, place) => (
              <span key={place}>
                {letter(place)}) <bdi>{option}</bdi>
              </span>
            ))}
          </div>
        </div>
      );
  }
}

/** To write on. */
function Line({ isWide = false }: { isWide?: boolean }) {
  return <span class={isWide ? "gap-line is-wide" : "gap-line"} role="img" aria-label="Line to write on" />;
}
