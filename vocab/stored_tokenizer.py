"""What is known of a tokenizer as a file, so that a process needs neither the tokenizer nor the libraries that read it.

Named by the digest of its contents, which is computed anew when it is read: a damaged or foreign file is refused.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from vocab.errors import ArtefactError
from vocab.store import ArtefactStore
from vocab.tokenizer import TokenizerFacts


def store_tokenizer(tokenizer: TokenizerFacts, store: ArtefactStore) -> Path:
    """Writes the file, unless it is there.

    Raises:
        ArtefactError: It cannot be written.
    """
    if store.has(tokenizer.digest):
        return store.path_of(tokenizer.digest)
    tokens = tokenizer.token_bytes
    ends = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
    data: bytes = save({"bytes": np.frombuffer(b"".join(tokens) or b"\0", dtype=np.uint8), "ends": ends})
    return store.write_bytes(tokenizer.digest, data)


def load_stored_tokenizer(digest: str, store: ArtefactStore) -> TokenizerFacts:
    """Reads what ``store_tokenizer`` wrote.

    Raises:
        ArtefactError: There is no such file, or it is another one.
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
