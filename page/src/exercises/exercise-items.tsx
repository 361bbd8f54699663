import type { Exercise } from "../api/types";
import { keyOf, letter, printedOrder } from "./exercise";

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
              <button
                type="button"
                class="link"
                lang="en"
                aria-label={`Remove item ${row + 1}`}
                onClick={(event) => onRemove(index, event.currentTarget)}
              >
                ×
              </button>
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
          {question}
          {statement && (
            <>
              {statement} <Line />
            </>
          )}
          {before}
          {kind === "gap_fill" && <Line />}
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
