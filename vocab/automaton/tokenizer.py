"""What the automaton must know of a tokenizer: the bytes that each token adds to a text, and nothing else.

The bytes come from ``xgrammar.TokenizerInfo``, which undoes byte-level and byte-fallback spellings. Special tokens
get no bytes, so that no text can be spelled with them: ``TokenizerInfo.special_token_ids`` is empty for tokenizers
that mark their special tokens otherwise, hence the tokenizer's own sets are read here.

xgrammar and transformers are imported where a tokenizer is read, and not with the module: they bring torch along, 4 s
and 250 MB that a process which knows the bytes already does without.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from vocab.errors import CompileError


@dataclass(frozen=True)
class TokenizerFacts:
    """The byte string of every token id.

    Attributes:
        token_bytes: One entry per token id; ``b""`` for a token that adds no text (special tokens, padding ids).
    """

    token_bytes: tuple[bytes, ...]

    @classmethod
    def from_token_bytes(cls, token_bytes: Sequence[bytes], special_ids: Sequence[int] = ()) -> Self:
        """Make the facts from the bytes of each token id; those in ``special_ids`` add no text."""
        special = frozenset(special_ids)
        return cls(tuple(b"" if i in special else bytes(b) for i, b in enumerate(token_bytes)))

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> Self:
        """Read the facts of a loaded Hugging Face tokenizer.

        Raises:
            CompileError: xgrammar cannot read it.
        """
        import xgrammar

        try:
            info = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
        except ValueError as error:
            raise CompileError(f"xgrammar cannot read the model's tokenizer, so it keeps to no list: {error}") from None
        return cls.from_token_bytes(info.decoded_vocab, sorted(special_ids(tokenizer)))

    @cached_property
    def textless(self) -> frozenset[int]:
        """Collect the tokens without bytes, special ones included: only they end a text."""
        return frozenset(token for token, spelled in enumerate(self.token_bytes) if not spelled)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of all token bytes: tokenizers with one digest share their artefacts."""
        sha = hashlib.sha256()
        for token in self.token_bytes:
            sha.update(len(token).to_bytes(4, "little"))
            sha.update(token)
        return sha.hexdigest()

    def __len__(self) -> int:
        return len(self.token_bytes)


def special_ids(tokenizer: Any) -> set[int]:
    """Return the tokens that a loaded Hugging Face tokenizer calls special; no text is spelled with them."""
    return set(tokenizer.all_special_ids) | {i for i, added in tokenizer.added_tokens_decoder.items() if added.special}
