"""What it costs to get ready: compiling, changing N, adding and leaving out words, loading, and sharing memory.

    python benchmarks/compile.py --lang es --words 50000 --tokenizer PATH [--repeats 5] [--json FILE]

One thread; the kernels are warm, as a compile process warms them before its first job, and the token trie, made once
per tokenizer, is counted apart. The best of several, but for the whole list, which is compiled once.
"""

import argparse
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
from vocab.automaton.automaton import TokenAutomaton, compile_automaton  # noqa: E402
from vocab.automaton.token_trie import TokenTrie  # noqa: E402
from vocab.exclusion.exclusion import exclude  # noqa: E402
from vocab.lists.wordlists import WordList, load_word_list  # noqa: E402
from vocab.matching.masks import MaskRows  # noqa: E402
from vocab.matching.matcher import Matcher  # noqa: E402
from vocab.matching.states import ListStates  # noqa: E402
from vocab.matching.union import UnionStates  # noqa: E402
from vocab.options import DEFAULT_OPTIONS, ListOptions  # noqa: E402
from vocab.text.changes import entries_left_out  # noqa: E402

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
        automaton = bench.compile(f"{arguments.words:,} words", first)
        bench.compile("an inline list of 2,000 words", WordList("und", word_list.words[:2_000], "inline"))
        bench.use_another_n(automaton, arguments.words)
        bench.add_words(automaton)
        bench.leave_words_out(automaton)
        bench.load(f"{arguments.words:,} words", automaton)
        texts = [tokenizer.hugging_face.encode(text, add_special_tokens=False)
                 for texts in text_sets(first, arguments.words) for text in (*texts.warm_up, *texts.timed)]  # fmt: skip
        run["processes"] = read_together(
            {
                "folder": folder,
                "digest": automaton.digest,
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
        self._facts, self._stop_token = tokenizer.facts, tokenizer.stop_token
        self._repeats = repeats
        self._folder = folder

    def get_warm(self) -> None:
        """Compiles the kernels, and measures the token trie."""
        TokenTrie.of(self._facts)
        self._trie = self._measure("token trie, once per tokenizer", lambda: TokenTrie.of(self._facts), 2)
        few = WordList("es", ("uno", "dos", "tres"), "inline")
        automaton = compile_automaton(few, DEFAULT_OPTIONS, self._facts, self._trie)
        self._first_mask(UnionStates(self._states(automaton, 3), self._states(automaton, 3)))
        exclude(automaton, ("dos",), self._facts, self._trie)

    def compile(self, name: str, word_list: WordList, repeats: int | None = None) -> TokenAutomaton:
        return self._measure(f"compile {name}", lambda: self._compiled(word_list, DEFAULT_OPTIONS), repeats)

    def use_another_n(self, automaton: TokenAutomaton, n_words: int) -> None:
        """A new N, to its first mask."""
        rows = MaskRows(automaton)
        sizes = iter(range(n_words - 1, 0, -7))
        self._measure(
            "another N, to its first mask", lambda: self._first_mask(ListStates(automaton, rows, next(sizes)))
        )

    def add_words(self, automaton: TokenAutomaton) -> None:
        """Extra words beside the list, to their first mask."""
        extra, options = WordList("es", NAMES, "inline"), ListOptions(case="sentence")
        listed = self._states(automaton, 1_000)

        def add() -> None:
            added = self._compiled(extra, options)
            self._first_mask(UnionStates(listed, self._states(added, len(NAMES))))

        self._measure(f"{len(NAMES)} extra words, to their first mask", add)

    def leave_words_out(self, automaton: TokenAutomaton) -> None:
        """Words left out, the list without them ready."""
        words = [word for word in automaton.word_list.words[100:] if word.isalpha() and len(word) > 5][:NUM_LEFT_OUT]
        entries = entries_left_out(automaton.word_list, tuple(words))

        def leave_out() -> None:
            exclusion = exclude(automaton, entries, self._facts, self._trie)
            if exclusion is None:
                raise RuntimeError("these words cannot be left out without a compile")
            exclusion.apply(automaton)

        self._measure(f"{NUM_LEFT_OUT} words left out, without a compile", leave_out)

    def load(self, name: str, automaton: TokenAutomaton) -> None:
        """Writes an artefact and maps it again, its pages still in the system's cache."""
        file = self._folder.save(automaton)
        self._run.setdefault("artefact_bytes", {})[name] = file.stat().st_size
        self._measure(f"load the artefact of {name}", lambda: self._folder.load(automaton.digest))

    def _measure(self, name: str, work: Callable[[], T], repeats: int | None = None) -> T:
        times = []
        for _ in range(repeats or self._repeats):
            started = time.perf_counter()
            result = work()
            times.append(time.perf_counter() - started)
        self._run["seconds"][name] = min(times)
        return result

    def _compiled(self, word_list: WordList, options: ListOptions) -> TokenAutomaton:
        return compile_automaton(word_list, options, self._facts, self._trie)

    def _states(self, automaton: TokenAutomaton, n_words: int) -> ListStates:
        return ListStates(automaton, MaskRows(automaton), n_words)

    def _first_mask(self, states: ListStates | UnionStates) -> None:
        row = np.zeros((len(self._facts) + 31) // 32, dtype=np.int32)
        Matcher(states, (self._stop_token,)).fill_bitmask(row)


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
    parser.add_argument("--lang", default="es", help="one of wordfreq's languages")
    parser.add_argument("--words", type=int, default=50_000, metavar="N")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
