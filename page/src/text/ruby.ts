/** What is read of a word that ends or begins in kana: 食べる is 食 with た above it, and べる. */
export interface Ruby {
  before: string;
  base: string;
  reading: string;
  after: string;
}

const HIRAGANA = /[\u3041-\u3096]/;

/** Return what stands above which part of a word. */
export function rubyOf(spelling: string, reading: string): Ruby {
  const most = Math.min(spelling.length, reading.length) - 1;
  const isSame = (own: string | undefined, other: string | undefined): boolean => own === other && HIRAGANA.test(own!);
  let tail = 0;
  while (tail < most && isSame(spelling.at(-1 - tail), reading.at(-1 - tail))) tail += 1;
  let head = 0;
  while (head < most - tail && isSame(spelling[head], reading[head])) head += 1;
  return {
    before: spelling.slice(0, head),
    base: spelling.slice(head, spelling.length - tail),
    reading: reading.slice(head, reading.length - tail),
    after: spelling.slice(spelling.length - tail),
  };
}
