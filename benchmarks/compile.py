"""What it costs to get ready: compiling, other options and N, words added and left out, loading, and sharing memory.

    python benchmarks/compile.py --lang es --words 50000 --tokenizer PATH [--repeats 5] [--json FILE]

One thread; the kernels are warm and the garbage collector is off, as in a compile process, and what is found out once
per tokenizer is counted apart. The best of several, but for the whole list, which is compiled once.
"""

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from benchmarks.arm import load_model_tokenizer  # noqa: E402
from benchmarks.engines import ModelTokenizer  # noqa: E402
from benchmarks.machine import ONE_THREAD, facts_of_run, use_one_core  # noqa: E402
from benchmarks.mapped import read_together  # noqa: E402
from benchmarks.texts import text_sets  # noqa: E402
from vocab.artefacts.artefact import ArtefactFolder  # noqa: E402
from vocab.automaton.compiled_list import CompiledList  # noqa: E402
from vocab.automaton.frame import Frame, frame_for  # noqa: E402
from vocab.automaton.frame_tokens import FrameTokens  # noqa: E402
from vocab.automaton.overlay import Overlay, build_overlay  # noqa: E402
from vocab.automaton.tokenizer import Speller  # noqa: E402
from vocab.automaton.trie_builder import build_words  # noqa: E402
from vocab.compiler.warm_up import warm_up  # noqa: E402
from vocab.lists.wordlists import WordList, load_word_list  # noqa: E402
from vocab.matching.matcher import Matcher  # noqa: E402
from vocab.matching.states import ListStates  # noqa: E402
from vocab.options import ListOptions  # noqa: E402
from vocab.text.changes import ListChanges, entries_left_out  # noqa: E402

_BEGINNINGS: Final = ("Ana", "Bru", "Cor", "Dol", "Ed")
_ENDINGS: Final = ("bel", "dano", "fina", "gard", "lin", "mira", "nest", "ro", "tola", "vik")
NAMES: Final = tuple(beginning + ending for beginning in _BEGINNINGS for ending in _ENDINGS)
"""Fifty words to add."""

NUM_LEFT_OUT: Final = 20
NUM_READERS: Final = 2

T = TypeVar("T")


def main() -> None:
    arguments = _arguments()
    facts = facts_of_run()
    use_one_core()
    gc.disable()
    os.environ.update(ONE_THREAD)
    tokenizer, word_list = load_model_tokenizer(arguments.tokenizer), load_word_list(arguments.lang, None)
    run: dict[str, Any] = {
        **facts,
        "lang": arguments.lang,
        "tokenizer": {"name": Path(arguments.tokenizer).name, "num_tokens": len(tokenizer.facts)},
        "seconds": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(run, tokenizer, arguments.repeats, ArtefactFolder(Path(folder)))
        bench.get_warm()
        first = word_list.up_to(arguments.words)
        words = bench.compile(f"{arguments.words:,} words", first)
        bench.compile("an inline list of 2,000 words", WordList("und", word_list.words[:2_000], "inline"))
        bench.use_other_options(words)
        bench.use_another_n(words, arguments.words)
        bench.change(words)
        bench.load(f"{arguments.words:,} words", words)
        texts = [tokenizer.hugging_face.encode(text, add_special_tokens=False)
                 for texts in text_sets(first, arguments.words) for text in (*texts.warm_up, *texts.timed)]  # fmt: skip
        run["processes"] = read_together(
            {
                "folder": folder,
                "digest": words.digest,
                "tokenizer": arguments.tokenizer,
                "n_words": arguments.words,
                "stop_token": tokenizer.stop_token,
                "texts": texts,
            },
            NUM_READERS,
            ROOT,
        )
        whole_name = f"all {word_list.num_ranks:,} words"
        bench.load(whole_name, bench.compile(whole_name, word_list, repeats=1))
    print(_table(run))
    if arguments.json:
        arguments.json.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")


class _Bench:
    """Measures one thing after the other into the record of the run."""

    def __init__(self, run: dict[str, Any], tokenizer: ModelTokenizer, repeats: int, folder: ArtefactFolder) -> None:
        self._run = run
        self._tokenizer = tokenizer
        self._repeats = repeats
        self._folder = folder

    def get_warm(self) -> None:
        """Compiles the kernels, and measures what is found out once per tokenizer."""
        warm_up()
        facts, rules = self._tokenizer.facts, self._tokenizer.speller.rules
        self._frame_tokens = self._measure("tokens between words, once per tokenizer", lambda: FrameTokens.of(facts), 2)
        self._measure("marks drawn into words, once per tokenizer", lambda: Speller.from_rules(rules, facts).leads, 2)

    def compile(self, name: str, word_list: WordList, repeats: int | None = None) -> CompiledList:
        return self._measure(f"compile {name}", lambda: build_words(word_list, self._tokenizer.speller), repeats)

    def use_other_options(self, words: CompiledList) -> None:
        """What stands between the words, made for each set of options."""
        options = ListOptions(numbers=True, layout="lines", end="sentence")
        self._measure("another set of options", lambda: self._frame(words, options))

    def use_another_n(self, words: CompiledList, n_words: int) -> None:
        """A new N, to its first mask."""
        frame, sizes = self._frame(words, ListOptions(punctuation="full")), iter(range(n_words - 1, 0, -7))
        self._measure("another N, to its first mask", lambda: self._first_mask(ListStates(words, frame, next(sizes))))

    def change(self, words: CompiledList) -> None:
        """Words added and left out, to their first mask."""
        word_list = words.listed.word_list
        left_out = [word for word in word_list.words[100:] if word.isalpha() and len(word) > 5][:NUM_LEFT_OUT]

        def change() -> None:
            changes = ListChanges(NAMES, entries_left_out(word_list, tuple(left_out)))
            overlay = build_overlay(words, changes, self._tokenizer.speller)
            frame = self._frame(words, ListOptions(punctuation="full"), overlay)
            self._first_mask(ListStates(words, frame, word_list.num_ranks, overlay))

        self._measure(f"{len(NAMES)} extra words, {NUM_LEFT_OUT} left out, to their first mask", change)

    def load(self, name: str, words: CompiledList) -> None:
        """Writes an artefact and maps it again, its pages still in the system's cache."""
        file = self._folder.save(words)
        self._run.setdefault("artefact_bytes", {})[name] = file.stat().st_size
        self._measure(f"load the artefact of {name}", lambda: self._folder.load(words.digest))

    def _measure(self, name: str, work: Callable[[], T], repeats: int | None = None) -> T:
        times = []
        for _ in range(repeats or self._repeats):
            started = time.perf_counter()
            result = work()
            times.append(time.perf_counter() - started)
        self._run["seconds"][name] = min(times)
        return result

    def _frame(self, words: CompiledList, options: ListOptions, overlay: Overlay | None = None) -> Frame:
        return frame_for(words, overlay, options, self._frame_tokens)

    def _first_mask(self, states: ListStates) -> None:
        row = np.zeros(self._tokenizer.num_row_words, dtype=np.int32)
        Matcher(states, (self._tokenizer.stop_token,)).fill_bitmask(row)


def _table(run: dict[str, Any]) -> str:
    hardware, tokenizer = run["hardware"], run["tokenizer"]
    lines = [
        f"{run['lang']}; {tokenizer['name']}, {tokenizer['num_tokens']:,} tokens; {run['date']}",
        f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB, {hardware['system']}; "
        f"one thread; load before {hardware['load_before'][0]}",
        "",
        *(f"{name:<48}{1000 * seconds:>12,.1f} ms" for name, seconds in run["seconds"].items()),
        "",
        *(f"{'artefact of ' + name:<48}{size / 1e6:>12,.1f} MB" for name, size in run["artefact_bytes"].items()),
        "",
        f"{NUM_READERS} processes map one artefact; MiB of the mapping (and what each process grew by, all in all):",
    ]
    for number, sizes in enumerate(run["processes"], start=1):
        figures = ", ".join(f"{name} {sizes[name]:.1f}" for name in ("size", "rss", "pss", "shared", "private"))
        lines.append(f"  process {number}: {figures} (added {sizes['added']:.1f})")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--lang", default="es", help="a built-in list")
    parser.add_argument("--words", type=int, default=50_000, metavar="N")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
