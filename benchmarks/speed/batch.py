"""What constraints and rows cost the engine: tokens per second of one batch, free, with the automaton, with xgrammar,
and with the next-token row of every token.

    python -m benchmarks speed batch [--lang en] [--words 1000] [--batch 32] [--dtype float32] [--without ARM ...]

All arms run in one engine, in turn, on the same prompts and sampling parameters; the end token is biased away, so that
every answer has the same number of tokens. The figure of an arm is the median over the rounds.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.command import parser_of
from benchmarks.speed.regexes import regex_of
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import load_speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import load_word_list
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS, ListOptions
from vocab.text.grammar import write_ebnf
from vocab.vllm_plugin import use_plugin

ENVIRONMENT: Final = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
"""As the demo sets them; one core is left to the scheduler, which makes the masks."""

SUBJECTS: Final = (
    *("a dog", "the sea", "my house", "an old man", "the city", "a good day", "two friends"),
    "the long road",
)

REGEX_OPTIONS: Final = ListOptions(punctuation="full")
"""The usual marks: one of marks in pairs would be long."""

FREE: Final = "free"
ROWS: Final = "rows"
"""Free, and with rows, which are kept to the end: of 32 sequences 6 MB for each token at 49,152 tokens."""


def main() -> None:
    arguments = _arguments()
    word_list = load_word_list(arguments.lang, None)
    with tempfile.TemporaryDirectory() as folder:
        use_plugin()
        os.environ |= {**ENVIRONMENT, **os.environ, ARTEFACT_DIR_VARIABLE: folder}
        words = build_words(word_list, load_speller(arguments.model))
        ArtefactFolder(Path(folder)).save(words)
        reference = GrammarReference(words.digest, DEFAULT_OPTIONS, arguments.words, arguments.max_tokens).to_ebnf()
        arms = {
            FREE: None,
            "automaton": {"grammar": reference},
            "xgrammar regex": {"regex": regex_of(write_ebnf(word_list, REGEX_OPTIONS, arguments.words))},
            ROWS: None,
        }
        figures = _measure(arguments, {arm: value for arm, value in arms.items() if arm not in arguments.without})
    print(f"\n{arguments.batch} sequences, {arguments.words} words of {arguments.lang!r}, {arguments.dtype}")
    print(f"{'arm':<16}{'tokens/s':>10}{'of free':>10}")
    for arm, values in figures.items():
        share = statistics.median(values) / statistics.median(figures[FREE])
        print(f"{arm:<16}{statistics.median(values):>10.1f}{share:>10.1%}")


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--lang", default="en")
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="auto", help="the engine's dtype; auto is the model's own")
    parser.add_argument("--without", nargs="*", default=[], metavar="ARM", help="arms that are left out")
    return parser.parse_args()


def _measure(arguments: argparse.Namespace, arms: dict[str, dict[str, str] | None]) -> dict[str, list[float]]:
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    from vocab.vllm_plugin.own_probabilities import rows_args, rows_of

    engine = LLM(
        model=arguments.model,
        dtype=arguments.dtype,
        max_model_len=1024,
        max_num_seqs=arguments.batch,
        enforce_eager=True,
        seed=0,
        structured_outputs_config={"backend": "xgrammar"},
    )
    stop_token = engine.get_tokenizer().eos_token_id
    prompts: list[Any] = [[{"role": "user", "content": story(number)}] for number in range(arguments.batch)]

    def tokens_per_second(arm: str, constraint: dict[str, str] | None) -> float:
        sampling = SamplingParams(
            temperature=1.0,
            seed=1,
            max_tokens=arguments.max_tokens,
            logit_bias={stop_token: -100.0},
            structured_outputs=StructuredOutputsParams(**constraint) if constraint else None,
            extra_args=rows_args() if arm == ROWS else None,
        )
        started = time.perf_counter()
        answers = engine.chat(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - started
        if arm == ROWS and any(len(rows_of(answer)) != arguments.max_tokens for answer in answers):
            raise SystemExit("a token came without its row")
        return sum(len(answer.outputs[0].token_ids) for answer in answers) / seconds

    figures: dict[str, list[float]] = {arm: [] for arm in arms}
    for round_number in range(arguments.rounds + 1):
        for arm, constraint in arms.items():
            figure = tokens_per_second(arm, constraint)
            if round_number:  # the first round compiles and fills caches
                figures[arm].append(figure)
    return figures


def story(number: int) -> str:
    """Return the message of a request, of any number."""
    return f"Tell me story {number} about {SUBJECTS[number % len(SUBJECTS)]}."


if __name__ == "__main__":
    main()
