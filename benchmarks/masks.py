"""What one mask costs, by the number of words: microseconds (median) with the automaton and with xgrammar's grammar.

    python -m benchmarks.masks --model PATH [--lang es] [--words 50 1000 10000 50000] [--xgrammar-up-to 10000]

Both follow the same text, made of the 50 most frequent words, and both know the same definition of allowed text.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xgrammar
from transformers import AutoTokenizer

from vocab.automaton import TokenAutomaton, compile_automaton
from vocab.ebnf import write_ebnf
from vocab.masks import MaskRows
from vocab.matcher import Matcher
from vocab.options import ListOptions
from vocab.states import ListStates
from vocab.tokenizer import TokenizerFacts
from vocab.wordlists import load_word_list

NUM_WORDS_OF_TEXT = 300
FEWEST_WORDS = 50


def main() -> None:
    arguments = _arguments()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    word_list, options = load_word_list(arguments.lang, None), ListOptions()
    started = time.perf_counter()
    automaton = compile_automaton(word_list, options, TokenizerFacts.from_tokenizer(tokenizer))
    print(f"automaton of {len(word_list.words):,} words compiled in {time.perf_counter() - started:.1f} s, for every N")

    text = " ".join(random.Random(0).choices(word_list.words[:FEWEST_WORDS], k=NUM_WORDS_OF_TEXT))
    tokens = tokenizer.encode(text, add_special_tokens=False)
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
    print(f"{'words':>8}{'automaton':>12}{'xgrammar':>12}{'compile':>10}")
    for n_words in arguments.words:
        automaton_us = _with_automaton(automaton, n_words, tokens)
        if n_words > arguments.xgrammar_up_to:
            print(f"{n_words:>8,}{automaton_us:>9.1f} us")
            continue
        started = time.perf_counter()
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        compiled = compiler.compile_grammar(write_ebnf(word_list, options, n_words))
        compile_s = time.perf_counter() - started
        xgrammar_us = _with_xgrammar(compiled, info.vocab_size, tokens)
        print(f"{n_words:>8,}{automaton_us:>9.1f} us{xgrammar_us:>9.0f} us{compile_s:>8.1f} s")


def _with_automaton(automaton: TokenAutomaton, n_words: int, tokens: list[int]) -> float:
    rows, row = MaskRows(automaton), np.zeros((automaton.num_tokens + 31) // 32, dtype=np.int32)

    def follow() -> list[float]:
        matcher = Matcher(ListStates(automaton, rows, n_words), ())
        return _follow(tokens, lambda: matcher.fill_bitmask(row), matcher.accept_token)

    follow()  # the first text compiles the kernels and fills the cache of dense rows
    return statistics.median(follow())


def _with_xgrammar(compiled: Any, vocab_size: int, tokens: list[int]) -> float:
    matcher = xgrammar.GrammarMatcher(compiled)
    bitmask = xgrammar.allocate_token_bitmask(1, vocab_size)
    return statistics.median(_follow(tokens, lambda: matcher.fill_next_token_bitmask(bitmask), matcher.accept_token))


def _follow(tokens: list[int], fill: Callable[[], object], accept: Callable[[int], bool]) -> list[float]:
    """Microseconds of each mask along the text."""
    times = []
    for token in tokens:
        started = time.perf_counter()
        fill()
        times.append((time.perf_counter() - started) * 1e6)
        if not accept(token):
            raise RuntimeError(f"token {token} of a listed text was refused")
    return times


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--lang", default="es")
    parser.add_argument("--words", type=int, nargs="+", default=[50, 1_000, 10_000, 50_000])
    parser.add_argument("--xgrammar-up-to", type=int, default=10_000, help="leave xgrammar out for more words")
    return parser.parse_args()


if __name__ == "__main__":
    main()
