"""This repository's token automaton, as vLLM's plugin uses it: spelled in another process, mapped from its file.

``wordbound`` compiles the whole list once and is asked for N, as the service does; ``wordbound-n`` compiles the first N
words only, to compare compile times.
"""

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.engines import Compiled, Definition, Follower, Form, ModelTokenizer
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.tokenizer import load_speller
from vocab.automaton.trie_builder import build_words
from vocab.compiler.warm_up import warm_up
from vocab.lists.wordlists import load_word_list
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates


class Wordbound:
    """An artefact, mapped into memory."""

    reads: Form = "list"

    def __init__(self, name: str, tokenizer: ModelTokenizer) -> None:
        self._is_whole = name == "wordbound"
        self._tokenizer = tokenizer
        self._folder = tempfile.TemporaryDirectory()
        self.row = np.zeros(tokenizer.num_row_words, dtype=np.int32)
        self._frame_tokens = FrameTokens.of(tokenizer.facts)
        compiled = "whole list compiled, once for every N" if self._is_whole else "first N words compiled"
        self.note = f"{compiled}; vocab.matching.matcher.Matcher on the mapped artefact"
        # The kernels are compiled, or read from numba's cache, on first use.
        warm_up()

    def compile(self, definition: Definition) -> Compiled:
        job = {
            "lang": definition.word_list.lang,
            "n_words": None if self._is_whole else definition.n_words,
            "tokenizer": self._tokenizer.path,
            "folder": self._folder.name,
        }
        command = [sys.executable, "-m", "benchmarks.engines.wordbound", json.dumps(job)]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        folder = ArtefactFolder(Path(self._folder.name))
        words = folder.load(answer["digest"])
        started = time.perf_counter()
        self.take(words, definition)
        seconds = answer["seconds"] + time.perf_counter() - started
        return Compiled(seconds, artefact_bytes=folder.path_of(answer["digest"]).stat().st_size)

    def take(self, words: CompiledList, definition: Definition) -> None:
        """Get ready for the texts of a definition whose list is compiled."""
        frame = frame_for(words, None, definition.options, self._frame_tokens)
        self._states = ListStates(words, frame, definition.n_words)

    def follow(self) -> Follower:
        matcher = Matcher(self._states, (self._tokenizer.stop_token,))
        return Follower(partial(matcher.fill_bitmask, self.row), matcher.accept_token)


engine = Wordbound


def main() -> None:
    """Compiles the artefact that a job, JSON in the first argument, asks for."""
    job = json.loads(sys.argv[1])
    word_list = load_word_list(job["lang"], None)
    has_capitals = word_list.has_capitals
    if job["n_words"] is not None:
        word_list = word_list.up_to(job["n_words"])
    speller = load_speller(job["tokenizer"])
    warm_up()
    started = time.perf_counter()
    words = build_words(word_list, speller, has_capitals=has_capitals)
    seconds = time.perf_counter() - started
    ArtefactFolder(Path(job["folder"])).save(words)
    print(json.dumps({"digest": words.digest, "seconds": seconds}))


if __name__ == "__main__":
    main()
