"""What constraints and rows cost the engine: tokens per second of one batch, free, with the automaton, with xgrammar,
and with the next-token row of every token.

    python benchmarks/throughput.py --model PATH [--lang en] [--words 1000] [--batch 32] [--dtype float32] [--json FILE]

All arms run in one engine, in turn, on the same prompts and sampling parameters; the end token is biased away, so that
every answer has the same number of tokens. The figure of an arm is the median over the rounds.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import load_speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS, ListOptions
from vocab.text.forms import surface_forms
from vocab.vllm_plugin import use_plugin

ENGINE_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
"""As the demo sets them; one core is left to the scheduler, which makes the masks."""

SUBJECTS = ("a dog", "the sea", "my house", "an old man", "the city", "a good day", "two friends", "the long road")


ROWS = "rows"
"""Free, and with rows, which are kept to the end: of 32 sequences 6 MB for each token at 49,152 tokens."""


def main() -> None:
    arguments = _arguments()
    word_list = load_word_list(arguments.lang, None)
    with tempfile.TemporaryDirectory() as folder:
        use_plugin()
        os.environ[ARTEFACT_DIR_VARIABLE] = folder
        for name, value in ENGINE_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        words = build_words(word_list, load_speller(arguments.model))
        ArtefactFolder(Path(folder)).save(words)
        reference = GrammarReference(words.digest, DEFAULT_OPTIONS, arguments.words, arguments.max_tokens).to_ebnf()
        first = WordList(word_list.lang, word_list.words[: arguments.words], word_list.source)
        arms = {
            "free": None,
            "automaton": {"grammar": reference},
            "xgrammar regex": {"regex": _regex_of(first, DEFAULT_OPTIONS)},
            ROWS: None,
        }
        for name in arguments.without:
            arms.pop(name)
        figures = _measure(arguments, arms)
    _print(arguments, figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--lang", default="en")
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="auto", help="the engine's dtype; auto is the model's own")
    parser.add_argument("--without", nargs="*", default=[], metavar="ARM", help="arms that are left out")
    parser.add_argument("--json", type=Path)
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
    stop_tokens = [engine.get_tokenizer().eos_token_id]
    prompts: list[Any] = [
        [{"role": "user", "content": f"Tell me story {i} about {SUBJECTS[i % len(SUBJECTS)]}."}]
        for i in range(arguments.batch)
    ]

    def tokens_per_second(arm: str, constraint: dict[str, str] | None) -> float:
        sampling = SamplingParams(
            temperature=1.0,
            seed=1,
            max_tokens=arguments.max_tokens,
            logit_bias=dict.fromkeys(stop_tokens, -100.0),
            structured_outputs=StructuredOutputsParams(**constraint) if constraint else None,
            extra_args=rows_args() if arm == ROWS else None,
        )
        started = time.perf_counter()
        answers = engine.chat(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - started
        if arm == ROWS and any(len(rows_of(answer)) != arguments.max_tokens for answer in answers):
            raise SystemExit("a token came without its row")
        return sum(len(answer.outputs[0].token_ids) for answer in answers) / seconds

    figures: dict[str, list[float]] = {name: [] for name in arms}
    for round_number in range(arguments.rounds + 1):
        for name, constraint in arms.items():
            figure = tokens_per_second(name, constraint)
            if round_number:  # the first round compiles and fills caches
                figures[name].append(figure)
    return figures


def _regex_of(word_list: WordList, options: ListOptions) -> str:
    """A regular expression for these words with the usual marks, as a user of a regex engine would write it."""
    words = "|".join(re.escape(form.text) for form in surface_forms(word_list, options))
    return rf" ?(?:{words})(?:(?:[,;:.!?…]{{0,3}} |—)(?:{words}))*[.!?…]{{0,3}}"


def _print(arguments: argparse.Namespace, figures: dict[str, list[float]]) -> None:
    free = statistics.median(figures["free"])
    words = f"{arguments.words} words of {arguments.lang!r}"
    print(f"\n{arguments.batch} sequences, {words}, {arguments.model}, {arguments.dtype}")
    print(f"{'arm':<16}{'tokens/s':>10}{'of free':>10}")
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{name:<16}{median:>10.1f}{median / free:>10.1%}")


if __name__ == "__main__":
    main()
