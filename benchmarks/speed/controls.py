"""What a mask costs where an author controls the text: new words, required words, lengths of sentences.

    python -m benchmarks speed controls [--langs en de zh ja th] [--texts 8]

Texts of 160 tokens within 1,000 of 20,000 words, drawn from their own masks with fixed seeds. Each mask is timed by
the CPU time of its thread, in microseconds; the row of a list that is filled for the first time counts too.
"""

import random
import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.command import parser_of
from benchmarks.speed.engines import ModelTokenizer, load_model_tokenizer
from vocab.lists.wordlists import load_word_list
from vocab.matching.controls import UNLIMITED, Controls, NewWords, RequiredWord
from vocab.matching.list_kinds import control, states_of
from vocab.matching.matcher import Matcher
from vocab.options import ListOptions

N_WORDS, NUM_LISTED, NUM_TOKENS = 1_000, 20_000, 160
OPTIONS: Final = ListOptions(punctuation="standard", end="sentence")


def controls(draw: random.Random) -> dict[str, Controls]:
    """Draw the controls of a text, by the name of what they ask."""
    new = NewWords(3 * N_WORDS, draw.choice((5, 10, 20)), draw.choice((3, UNLIMITED)))
    must = tuple(RequiredWord((draw.randint(20, N_WORDS),), draw.choice((1, 2))) for _ in range(draw.choice((2, 5))))
    return {
        "new words": Controls(new_words=new),
        "required words": Controls(must_use=must, num_tokens=NUM_TOKENS),
        "sentences": Controls(max_sentence_words=draw.choice((6, 10)), min_sentences=2, max_sentences=8),
        "all": Controls(new, must, 10, 2, 8, NUM_TOKENS),
    }


def draw_text(matcher: Matcher, tokenizer: ModelTokenizer, draw: random.Random) -> Iterator[tuple[int, float, float]]:
    """Yield tokens drawn from a matcher's masks, with the seconds of the mask and of accepting the token.

    The stop token, which is not accepted, comes with none; more may be drawn in its place.
    """
    mask = np.zeros(tokenizer.num_row_words, dtype=np.int32)
    while True:
        started = time.thread_time()
        matcher.fill_bitmask(mask)
        filled = time.thread_time()
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        # The first tokens are the frequent ones.
        token = int(allowed[int(draw.random() ** 2 * len(allowed))])
        if token == tokenizer.stop_token:
            yield token, 0.0, 0.0
            continue
        accepting = time.thread_time()
        matcher.accept_token(token)
        yield token, filled - started, time.thread_time() - accepting


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--langs", nargs="+", default=["en", "de", "zh", "ja", "th"])
    parser.add_argument("--texts", type=int, default=8, help="of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    tokenizer = load_model_tokenizer(arguments.model)
    print("| language | asked | masks | mask, p50 · p99 µs | accepted token, p50 · p99 µs |\n|---|---|---:|---:|---:|")
    for lang in arguments.langs:
        word_list = load_word_list(lang, None).up_to(NUM_LISTED)
        states = states_of(word_list, OPTIONS, tokenizer.speller, N_WORDS)
        for name in controls(random.Random(0)):
            # The first text warms up.
            times: list[tuple[float, float]] = []
            for seed in range(arguments.texts + 1):
                draw = random.Random(seed)
                controlled = control(states, controls(draw)[name])
                drawn = draw_text(Matcher(controlled, [tokenizer.stop_token], NUM_TOKENS), tokenizer, draw)
                for _, (token, filling, accepting) in zip(range(NUM_TOKENS), drawn, strict=False):
                    if token == tokenizer.stop_token:
                        break
                    times += [(filling, accepting)] if seed else []
            masks, accepted = (1e6 * np.asarray(column) for column in zip(*times, strict=True))
            shown = (f"{np.percentile(one, 50):,.0f} · {np.percentile(one, 99):,.0f}" for one in (masks, accepted))
            print(f"| {lang} | {name} | {len(times)} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
