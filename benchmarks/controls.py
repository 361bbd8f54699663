"""What a mask costs where an author controls the text: new words, required words, lengths of sentences.

    python -m benchmarks.controls --tokenizer PATH [--langs en de zh ja th] [--texts 8]

Texts of 160 tokens within 1,000 of 20,000 words, drawn from their own masks with fixed seeds. Each mask is timed by
the CPU time of its thread, in microseconds; the row of a list that is filled for the first time counts too.
"""

import argparse
import random
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.arm import load_model_tokenizer
from vocab.lists.wordlists import load_word_list
from vocab.matching.controls import UNLIMITED, Controls, NewWords, RequiredWord
from vocab.matching.list_kinds import control, states_of
from vocab.matching.matcher import Matcher
from vocab.options import ListOptions

N_WORDS, NUM_LISTED, NUM_TOKENS = 1_000, 20_000, 160
OPTIONS = ListOptions(punctuation="standard", end="sentence")


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


def follow(matcher: Matcher, stop: int, num_words: int, draw: random.Random) -> Iterator[tuple[float, float]]:
    """Yield the seconds of each mask, int32 (``num_words``,), and of accepting a token of it, until a text ends."""
    mask = np.zeros(num_words, dtype=np.int32)
    for _ in range(NUM_TOKENS):
        started = time.thread_time()
        matcher.fill_bitmask(mask)
        filled = time.thread_time()
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        # The first tokens are the frequent ones.
        token = int(allowed[int(draw.random() ** 2 * len(allowed))])
        if token == stop:
            return
        accepting = time.thread_time()
        matcher.accept_token(token)
        yield filled - started, time.thread_time() - accepting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="a local folder or a Hugging Face id")
    parser.add_argument("--langs", nargs="+", default=["en", "de", "zh", "ja", "th"])
    parser.add_argument("--texts", type=int, default=8, help="of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    tokenizer = load_model_tokenizer(arguments.tokenizer)
    num_words = (len(tokenizer.facts) + 31) // 32
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
                matcher = Matcher(controlled, [tokenizer.stop_token], NUM_TOKENS)
                found = list(follow(matcher, tokenizer.stop_token, num_words, draw))
                times += found if seed else []
            masks, accepted = (1e6 * np.asarray(column) for column in zip(*times, strict=True))
            shown = (f"{np.percentile(one, 50):,.0f} · {np.percentile(one, 99):,.0f}" for one in (masks, accepted))
            print(f"| {lang} | {name} | {len(times)} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
