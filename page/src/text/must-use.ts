import type { Word } from "./words";

/**
 * Return which required words a checked text lacks.
 *
 * A word occurs if one is spelled so, in any capitals; in any form, if one has it as its lemma.
 */
export function unusedOf(
  required: readonly string[],
  anyForm: boolean,
  text: string,
  words: readonly Word[],
): string[] {
  const met = new Set<string>();
  for (const { start, end, lemma } of words) {
    met.add(folded(text.slice(start, end)));
    if (anyForm && lemma) met.add(folded(lemma));
  }
  const whole = ` ${words.map(({ start, end }) => folded(text.slice(start, end))).join(" ")} `;
  return required.filter((word) => {
    const sought = folded(word);
    // An entry of several words.
    return !met.has(sought) && !(/\s/.test(sought) && whole.includes(` ${sought.split(/\s+/).join(" ")} `));
  });
}

function folded(word: string): string {
  return word.normalize("NFC").toLowerCase().replaceAll("’", "'");
}
