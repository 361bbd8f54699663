"""Load or compile the machine code of compile, exclusion, load, mask and step, so that no request waits for it.

With numba's cache on disk this takes a fraction of a second, without it a minute.
"""

import tempfile
from pathlib import Path

import numpy as np

from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.automaton import compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.exclusion.exclusion import Exclusion, exclude
from vocab.lists.wordlists import WordList
from vocab.matching.masks import MaskRows
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.matching.union import UnionStates
from vocab.options import DEFAULT_OPTIONS

_STOP = 0


def warm_up() -> None:
    """Compile a list of a few words, store and load it, leave a word out, and write a text in it."""
    # The tokenizer lacks a byte of one word, so that spelling is checked too.
    lacking = "ñ".encode()[-1]
    tokenizer = TokenizerFacts.from_token_bytes([b"", *(bytes([byte]) for byte in range(256) if byte != lacking)])
    words = WordList("fr", ("l'", "l'un", "un", "a", "a b", "b", "ñ", "c"), "inline")
    trie = TokenTrie.from_bytes(TokenTrie.of(tokenizer).to_bytes())
    with tempfile.TemporaryDirectory(prefix="wordbound-") as path:
        folder = ArtefactFolder(Path(path))
        made = compile_automaton(words, DEFAULT_OPTIONS, tokenizer, trie)
        folder.save(made)
        automaton = folder.load(made.digest)
        exclusion = exclude(automaton, ("c",), tokenizer, trie)
        if exclusion is not None:
            Exclusion.from_bytes(exclusion.to_bytes()).apply(automaton)
        rows, row = MaskRows(automaton), np.zeros((len(tokenizer) + 31) // 32, dtype=np.int32)
        listed = ListStates(automaton, rows, words.num_ranks)
        for states, max_tokens in ((listed, None), (listed, 4), (UnionStates(listed, listed), None)):
            matcher = Matcher(states, (_STOP,), max_tokens)
            for byte in b"a b":
                matcher.fill_bitmask(row)
                matcher.accept_token(tokenizer.token_bytes.index(bytes([byte])))
