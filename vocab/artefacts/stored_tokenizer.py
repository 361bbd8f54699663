"""A tokenizer's facts as files, so that a process needs neither the tokenizer nor the libraries that read it.

One file holds the bytes of all tokens and is named by their digest, which is checked on reading; another their trie,
which takes as long to make as a list of 20,000 words to compile.
"""

import hashlib
import logging
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from vocab.artefacts.store import ArtefactStore
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError

logger = logging.getLogger(__name__)


def store_tokenizer(tokenizer: TokenizerFacts, store: ArtefactStore) -> Path:
    """Write the token bytes, unless the file exists; raise ``ArtefactError`` if it cannot be written."""
    if store.has(tokenizer.digest):
        return store.path_of(tokenizer.digest)
    tokens = tokenizer.token_bytes
    ends = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
    data: bytes = save({"bytes": np.frombuffer(b"".join(tokens) or b"\0", dtype=np.uint8), "ends": ends})
    return store.write_bytes(tokenizer.digest, data)


def load_stored_tokenizer(digest: str, store: ArtefactStore) -> TokenizerFacts:
    """Read what ``store_tokenizer`` wrote.

    Raises:
        ArtefactError: The file is missing, damaged, or holds another tokenizer.
    """
    try:
        arrays = load(store.read_bytes(digest))
        data = arrays["bytes"].tobytes()
        facts = TokenizerFacts(tuple(data[start:end] for start, end in pairwise(arrays["ends"].tolist())))
    except (SafetensorError, KeyError, TypeError) as error:
        raise ArtefactError(f"the tokenizer {digest} cannot be used: {error}") from None
    if facts.digest != digest:
        raise ArtefactError(f"the file of tokenizer {digest} holds another one")
    return facts


def stored_trie(tokenizer: TokenizerFacts, store: ArtefactStore) -> TokenTrie:
    """Return the trie of a tokenizer, from its file, or made now and stored."""
    digest = hashlib.sha256(f"token trie of {tokenizer.digest}".encode()).hexdigest()

    def load_trie(digest: str) -> TokenTrie:
        trie = TokenTrie.from_bytes(store.read_bytes(digest))
        if trie.digest != tokenizer.digest:
            raise ArtefactError(f"the file {digest} holds another tokenizer's trie")
        return trie

    trie = store.find(digest, load_trie)
    if trie is None:
        trie = TokenTrie.of(tokenizer)
        try:
            store.write_bytes(digest, trie.to_bytes())
        except ArtefactError as error:
            # Stored lists can be served from a full disk, too.
            logger.warning("%s", error)
    return trie
