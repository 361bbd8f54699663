import type { VNode } from "preact";
import { type Handout, handoutOf } from "../exports/handout";
import { Paragraphs, Sheet } from "../exports/sheets";
import { keyOf } from "./exercise";
import { ExerciseItems } from "./exercise-items";
import { made, material } from "./making";

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
      {handout.settings.value.withText && <Paragraphs text={all.text} />}
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
