"""What a list costs as xgrammar's grammar: to compile and write, as a file, to read, and for each mask.

    python -m benchmarks speed grammars [--langs en es] [--words 50,1000,3000]

Seconds are of processor time. A list is compiled and written with the limits of a service, for the options of a request
that names none; each mask along sentences of its words is timed by the time of its thread.
"""

import os
import random
import time
from typing import Any, Final

import numpy as np
import xgrammar

from benchmarks.command import numbers, parser_of
from benchmarks.speed.engines import load_model_tokenizer
from vocab.automaton.trie_builder import build_words
from vocab.compiler.grammars import GrammarCompiler
from vocab.compiler.jobs import MeasureTexts
from vocab.errors import ListTooLargeError
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES
from vocab.text.grammar import write_ebnf

OPTIONS: Final = ListOptions(end="sentence")
NUM_SENTENCES, NUM_WORDS = 30, 8


def sentences(word_list: WordList, n_words: int) -> str:
    """Return a text of sentences, the same each time."""
    words, draw = [word for word in word_list.up_to(n_words).words if word.isalpha()], random.Random(0)
    drawn = (" ".join(draw.choices(words, k=NUM_WORDS)) for _ in range(NUM_SENTENCES))
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in drawn)


def time_masks(compiled: Any, info: Any, text: list[int]) -> float:
    """Return the median time of a mask along a text, in microseconds."""
    mask, times = xgrammar.allocate_token_bitmask(1, info.vocab_size), []
    matcher = xgrammar.GrammarMatcher(compiled)
    for token in text:
        started = time.thread_time()
        matcher.fill_next_token_bitmask(mask)
        times.append(time.thread_time() - started)
        if not matcher.accept_token(token):
            raise RuntimeError("the grammar refuses a text of its list")
    return 1e6 * float(np.median(times))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--langs", nargs="+", default=["en", "es"])
    parser.add_argument("--words", type=numbers, default=[50, 1_000, 3_000], help="each N, with commas")
    arguments = parser.parse_args()
    tokenizer = load_model_tokenizer(arguments.model)
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer.hugging_face)
    grammars, compiler = GrammarCompiler(info), xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    print("| list | compile, s | with its file, s | file, MB | JSON, MB | read, s | mask, p50 µs |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for lang in arguments.langs:
        word_list = load_word_list(lang, None)
        for n_words in arguments.words:
            first = word_list.needed_up_to(n_words)
            words = build_words(first, tokenizer.speller, has_capitals=word_list.has_capitals)
            spelled = tokenizer.hugging_face.encode(sentences(word_list, n_words), add_special_tokens=False)
            before = os.times()
            try:
                data = grammars.compile(words, NO_CHANGES, MeasureTexts(words.digest, None, OPTIONS, n_words))
            except ListTooLargeError:
                print(f"| {lang}, {n_words:,} | refused |", flush=True)
                continue
            after = os.times()
            written_s = after.children_user + after.children_system - before.children_user - before.children_system
            ebnf, started = write_ebnf(word_list, OPTIONS, n_words), time.process_time()
            made = compiler.compile_grammar(ebnf)
            compiled_s, text = time.process_time() - started, made.serialize_json()
            started = time.process_time()
            compiled = xgrammar.CompiledGrammar.deserialize_json(text, info)
            read_s = time.process_time() - started
            print(
                f"| {lang}, {n_words:,} | {compiled_s:.2f} | {written_s:.1f} | {len(data) / 1e6:.1f} "
                f"| {len(text) / 1e6:.0f} | {read_s:.2f} | {time_masks(compiled, info, spelled):,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
