/** Convert places of a text from code points, as the service counts, to UTF-16 units, as strings do, and back. */
export class Offsets {
  /** The code points behind which a text is one unit ahead. */
  private readonly pairs: number[] = [];

  constructor(text: string) {
    let point = 0;
    for (const char of text) {
      if (char.length === 2) this.pairs.push(point);
      point += 1;
    }
  }

  toUnits(point: number): number {
    return point + this.numPairsBefore((index) => this.pairs[index]! < point);
  }

  toPoints(unit: number): number {
    return unit - this.numPairsBefore((index) => this.pairs[index]! + index < unit);
  }

  private numPairsBefore(isBefore: (index: number) => boolean): number {
    let [low, high] = [0, this.pairs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const BETWEEN_WORDS = /[\s。！？…，、；：「」『』《》（）“”]/;

/** Return what stands around a part of a text, from a blank or wide mark to another, and where it begins. */
export function partAround(
  text: string,
  { start, end }: { start: number; end: number },
  before: number,
  behind: number,
): { from: number; part: string } {
  let from = Math.max(0, start - before);
  while (from > 0 && from < start && !BETWEEN_WORDS.test(text[from]!)) from += 1;
  let to = Math.min(text.length, end + behind);
  while (to < text.length && to > end && !BETWEEN_WORDS.test(text[to]!)) to -= 1;
  return { from, part: text.slice(from, to) };
}
