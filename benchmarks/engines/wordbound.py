"""This repository's token automaton, as vLLM's plugin uses it: compiled in another process, mapped from its file.

``wordbound`` compiles the whole list once and is asked for N, as the service does; ``wordbound-n`` compiles the first N
words only, to compare compile times.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.engines import Compiled, Definition, Follower, Form, ModelTokenizer
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.automaton import compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import load_tokenizer_facts
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.masks import MaskRows
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.options import DEFAULT_OPTIONS, ListOptions
from vocab.text.forms import resolve_case


class Wordbound:
    """An artefact, mapped into memory."""

    reads: Form = "list"

    def __init__(self, name: str, tokenizer: ModelTokenizer) -> None:
        self._is_whole = name == "wordbound"
        self._tokenizer = tokenizer
        self._folder = tempfile.TemporaryDirectory()
        self.row = np.zeros(tokenizer.num_row_words, dtype=np.int32)
        compiled = "whole list compiled, once for every N" if self._is_whole else "first N words compiled"
        self.note = f"{compiled}; vocab.matching.matcher.Matcher on the mapped artefact; the token trie is built before"

    def compile(self, definition: Definition) -> Compiled:
        job = {
            "lang": definition.word_list.lang,
            "options": replace(
                definition.options, case=resolve_case(definition.word_list, definition.options)
            ).as_dict(),
            "n_words": None if self._is_whole else definition.n_words,
            "tokenizer": self._tokenizer.path,
            "folder": self._folder.name,
        }
        command = [sys.executable, "-m", "benchmarks.engines.wordbound", json.dumps(job)]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        folder = ArtefactFolder(Path(self._folder.name))
        automaton = folder.load(answer["digest"])
        self._states = ListStates(automaton, MaskRows(automaton), definition.n_words)
        return Compiled(answer["seconds"], artefact_bytes=folder.path_of(answer["digest"]).stat().st_size)

    def follow(self) -> Follower:
        matcher = Matcher(self._states, (self._tokenizer.stop_token,))
        return Follower(partial(matcher.fill_bitmask, self.row), matcher.accept_token)


engine = Wordbound


def main() -> None:
    """Compiles the artefact that a job, JSON in the first argument, asks for."""
    job = json.loads(sys.argv[1])
    word_list, options = load_word_list(job["lang"], None), ListOptions(**job["options"])
    if job["n_words"] is not None:
        word_list = word_list.up_to(job["n_words"])
    facts = load_tokenizer_facts(job["tokenizer"])
    trie = TokenTrie.of(facts)
    # The kernels are compiled, or read from numba's cache, on first use.
    compile_automaton(WordList("es", ("uno", "dos"), "inline"), DEFAULT_OPTIONS, facts, trie)
    started = time.perf_counter()
    automaton = compile_automaton(word_list, options, facts, trie)
    seconds = time.perf_counter() - started
    ArtefactFolder(Path(job["folder"])).save(automaton)
    print(json.dumps({"digest": automaton.digest, "seconds": seconds}))


if __name__ == "__main__":
    main()
