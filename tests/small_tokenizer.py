"""A small tokenizer of the ``tokenizers`` library, byte-level as many real ones, with some words as tokens."""

from collections.abc import Iterable
from typing import Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from vocab.automaton.tokenizer import Speller, TokenizerFacts

STOP: Final = 0
_STOP_TOKEN: Final = "<stop>"
_PRINTABLE: Final = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS: Final = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
_CHARACTERS: Final = {byte: chr(byte) for byte in _PRINTABLE} | {byte: chr(256 + i) for i, byte in enumerate(_OTHERS)}
"""By byte, the character that stands for it in a byte-level vocabulary."""


def small_speller(words: Iterable[str]) -> Speller:
    """Return a tokenizer with a stop token, all bytes, and the words, with and without a blank before them."""
    merges = list(dict.fromkeys(merge for word in words for merge in _merges(_spelled(word))))
    tokens = [_STOP_TOKEN, *_CHARACTERS.values(), *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    byte_of = {character: byte for byte, character in _CHARACTERS.items()}
    token_bytes = [b"", *(bytes(map(byte_of.__getitem__, token)) for token in tokens[1:])]
    return Speller.from_rules(tokenizer.to_str(), TokenizerFacts.from_token_bytes(token_bytes, [STOP]))


def _spelled(text: str) -> str:
    return "".join(_CHARACTERS[byte] for byte in text.encode())


def _merges(word: str) -> Iterable[tuple[str, str]]:
    for end in range(1, len(word)):
        yield word[:end], word[end]
    yield _spelled(" "), word
