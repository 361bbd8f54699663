"""The tokens that stand between words: those without letters, and how runs of them are followed."""

import unicodedata
from dataclasses import dataclass
from typing import Final

import numpy as np

from vocab.arrays.kernels import Int32Array, Uint8Array, kernel
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.marks import APOSTROPHES, BLANK, POSSESSIVE_LETTER

_MAX_TOKEN_BYTES: Final = 24
"""Of a token between words; runs of blanks and dashes are longer and never allowed."""

_APOSTROPHES: Final = tuple(map(str.encode, APOSTROPHES))


@dataclass(frozen=True)
class FrameTokens:
    """The tokens of a tokenizer that have no letter, but for the last one of a possessive.

    Attributes:
        ids: int32 (tokens,), ascending.
        spelled: uint8 (tokens, bytes), padded with zeros.
        lengths: int32 (tokens,).
        blank: The token of a lone blank; -1 for none.
    """

    ids: Int32Array
    spelled: Uint8Array
    lengths: Int32Array
    blank: int

    @classmethod
    def of(cls, facts: TokenizerFacts) -> "FrameTokens":
        """Collect the tokens without letters of a tokenizer, as a padded matrix of bytes."""
        tokens = [
            (token, spelled)
            for token, spelled in enumerate(facts.token_bytes)
            if 0 < len(spelled) <= _MAX_TOKEN_BYTES and not _has_letter(spelled)
        ]
        lengths = np.fromiter((len(spelled) for _, spelled in tokens), dtype=np.int32, count=len(tokens))
        matrix = np.zeros((len(tokens), int(lengths.max(initial=1))), dtype=np.uint8)
        for row, (_, spelled) in zip(matrix, tokens, strict=True):
            row[: len(spelled)] = np.frombuffer(spelled, dtype=np.uint8)
        ids = np.fromiter((token for token, _ in tokens), dtype=np.int32, count=len(tokens))
        blank = next((token for token, spelled in tokens if spelled == BLANK.encode()), -1)
        return cls(ids, matrix, lengths, blank)


def _has_letter(spelled: bytes) -> bool:
    """Return whether a token has a letter, other than the last one of a possessive."""
    if spelled.endswith(POSSESSIVE_LETTER.encode()):
        rest = spelled[:-1]
        return bool(rest) and (not rest.endswith(_APOSTROPHES) or _has_letter(rest))
    if spelled.isascii():
        # The fast case: translate() is compiled code.
        return spelled.lower() != spelled or spelled.upper() != spelled
    return any(unicodedata.category(char)[0] in "LM" for char in spelled.decode("utf-8", "ignore"))


@kernel
def run_tokens(table: Int32Array, spelled: Uint8Array, lengths: Int32Array) -> Int32Array:
    """Return the state after each token, by the state before it, int32 (states, tokens)."""
    reached = np.empty((len(table), len(lengths)), np.int32)
    for source in range(len(table)):
        for token in range(len(lengths)):
            state, depth = np.int32(source), 0
            while state >= 0 and depth < lengths[token]:
                state = table[state, spelled[token, depth]]
                depth += 1
            reached[source, token] = state
    return reached
