"""xgrammar's compiled grammars of lists as artefact files: the JSON that xgrammar writes and reads, compressed.

Their sizes are in ``docs/how-it-works.md``, "Lists as grammars".
"""

import zlib
from importlib.metadata import version
from typing import Final

import numpy as np

from vocab.artefacts.artefact import ArtefactFolder, read_tensors, write_tensors
from vocab.errors import ArtefactError

_FASTEST: Final = 1


def grammar_version() -> str:
    """Return a part of every digest: the format of the file, and xgrammar's version, for no other reads the JSON."""
    return f"1 {version('xgrammar')}"


def grammar_to_bytes(text: str, digest: str) -> bytes:
    """Serialize the JSON of a compiled grammar as the bytes of an artefact file."""
    grammar = np.frombuffer(zlib.compress(text.encode(), _FASTEST), dtype=np.uint8)
    return write_tensors({"grammar": grammar}, {"version": grammar_version(), "digest": digest})


def load_grammar(folder: ArtefactFolder, digest: str) -> str:
    """Read the JSON of a compiled grammar from its artefact file.

    Raises:
        ArtefactError: The file is missing or damaged, or holds another artefact or one of another version of xgrammar.
    """
    arrays, metadata = read_tensors(folder.read_bytes(digest))
    if metadata.get("digest") != digest or "grammar" not in arrays:
        raise ArtefactError(f"the artefact {digest} holds another one; delete the file")
    if metadata["version"] != grammar_version():
        raise ArtefactError(
            f"the grammar {digest} was compiled by xgrammar {metadata['version'].split()[-1]}, and this process has "
            f"{grammar_version().split()[-1]}: install the same version everywhere"
        )
    return zlib.decompress(arrays["grammar"].tobytes()).decode()
