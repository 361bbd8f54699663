"""A list's words grouped by lemma, kept as a file: looking up all words of a language takes 4 to 14 s.

Only the order and the ranks are stored, for the words are those of the list. A damaged or foreign file is not used.
"""

import hashlib
from importlib.metadata import version
from typing import Final

import numpy as np

from vocab.artefacts.artefact import read_tensors, write_tensors
from vocab.artefacts.store import ArtefactStore
from vocab.errors import ArtefactError
from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import WordList

_GROUPING_VERSION: Final = 1
"""Raised when ``vocab.lists.lemmas`` groups otherwise."""


def grouped_by_lemma(word_list: WordList, store: ArtefactStore) -> WordList:
    """What ``group_by_lemma`` makes of a list, from its file or made now and stored.

    Raises:
        NoLemmasError: The language has no lemmas.
        ArtefactError: The file cannot be written.
    """
    facts = f"lemmas {_GROUPING_VERSION} of {word_list.digest} by simplemma {version('simplemma')}"
    digest = hashlib.sha256(facts.encode()).hexdigest()

    def load(digest: str) -> WordList:
        arrays, metadata = read_tensors(store.read_bytes(digest))
        if metadata["list"] != word_list.digest:
            raise ArtefactError(f"the file {digest} holds the lemmas of another list")
        return WordList(
            word_list.lang,
            tuple(word_list.words[place] for place in arrays["places"].tolist()),
            word_list.source,
            tuple(arrays["ranks"].tolist()),
        )

    grouped = store.find(digest, load)
    if grouped is None:
        grouped = group_by_lemma(word_list)
        place_of = {word: place for place, word in enumerate(word_list.words)}
        arrays = {
            "places": np.array([place_of[word] for word in grouped.words], dtype=np.int32),
            "ranks": np.array(grouped.ranks, dtype=np.int32),
        }
        store.write_bytes(digest, write_tensors(arrays, {"list": word_list.digest}), is_new=True)
    return grouped
