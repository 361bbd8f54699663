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
