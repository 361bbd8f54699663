"""A tokenizer as a file, so that a process needs neither the model's folder nor the libraries that read it.

The file holds the bytes of all tokens and the rules of spelling, and is named by the digest of both.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np

from vocab.arrays.tensors import Array, read_tensors, write_tensors
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.speller import Speller
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError


def store_tokenizer(speller: Speller, store: ArtefactStore) -> Path:
    """Write a tokenizer, unless the file exists; raise ``ArtefactError`` if it cannot be written."""
    if store.has(speller.digest):
        return store.path_of(speller.digest)
    tokens = speller.facts.token_bytes
    arrays: dict[str, Array] = {
        "ends": np.cumsum([0, *map(len, tokens)], dtype=np.int64),
        "bytes": np.frombuffer(b"".join(tokens), dtype=np.uint8),
        "rules": np.frombuffer(speller.rules.encode(), dtype=np.uint8),
    }
    return store.write_bytes(speller.digest, write_tensors(arrays, {"tokenizer": speller.facts.digest}))


def load_stored_tokenizer(digest: str, store: ArtefactStore) -> Speller:
    """Read what ``store_tokenizer`` wrote.

    Raises:
        ArtefactError: The file is missing, damaged, or holds another tokenizer.
    """
    arrays, metadata = read_tensors(store.read_bytes(digest))
    try:
        data = arrays["bytes"].tobytes()
        facts = TokenizerFacts(tuple(data[start:end] for start, end in pairwise(arrays["ends"].tolist())))
        speller = Speller.from_rules(arrays["rules"].tobytes().decode(), facts)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"the tokenizer {digest} cannot be used: {error}") from None
    if speller.digest != digest or metadata["tokenizer"] != facts.digest:
        raise ArtefactError(f"the file of tokenizer {digest} holds another one")
    return speller
