"""How a tokenizer spells words: asked of the tokenizer itself, in batches."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Self, TypeAlias

from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import CompileError
from vocab.marks import APOSTROPHES, BLANK, JOINING_DASH, LINE_BREAK, OPEN_MARKS, POSSESSIVE_LETTER

LEADS: Final = APOSTROPHES + JOINING_DASH + LINE_BREAK + OPEN_MARKS
"""What may stand directly before a word, besides a blank."""

_PROBE: Final = "\n"
_PROBE_WORDS: Final = ("dog", "a", "x")
_ANY: Final = ""
"""Stands for a first letter of which a token has only the first bytes."""


Encode: TypeAlias = Callable[[Sequence[str]], list[list[int]]]
"""Returns the token ids of each text, without special tokens."""


class Speller:
    """A tokenizer's own spelling of texts, as they are spelled inside a longer text.

    Args:
        encode: The tokenizer, in batches.
        facts: The bytes of its tokens.
        rules: All that ``encode`` depends on: of a fast tokenizer, its JSON.
    """

    def __init__(self, encode: Encode, facts: TokenizerFacts, rules: str) -> None:
        self.facts = facts
        self.rules = rules
        self._encode = encode
        # Tokenizers with a dummy prefix put a blank before a text that has none.
        [probe] = encode(["a"])
        self._before = "" if self._joined(probe) == b"a" else _PROBE
        self._num_before = len(encode([self._before])[0]) if self._before else 0

    @classmethod
    def from_rules(cls, rules: str, facts: TokenizerFacts) -> Self:
        """Return the speller of a tokenizer of the ``tokenizers`` library, given as its JSON."""
        # Imported where it is needed: an engine reads what was spelled.
        from tokenizers import Tokenizer

        backend: Any = Tokenizer.from_str(rules)
        backend.no_padding()
        backend.no_truncation()

        def encode(texts: Sequence[str]) -> list[list[int]]:
            return [row.ids for row in backend.encode_batch_fast(list(texts), add_special_tokens=False)]

        return cls(encode, facts, rules)

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> Self:
        """Return the speller of a Hugging Face tokenizer.

        Raises:
            CompileError: It has no fast implementation.
        """
        if not has_own_spelling(tokenizer):
            raise CompileError("the model's tokenizer has no fast implementation, so its spelling is not known")
        return cls.from_rules(tokenizer.backend_tokenizer.to_str(), TokenizerFacts.from_tokenizer(tokenizer))

    @classmethod
    def of_tokens(cls, facts: TokenizerFacts) -> Self:
        """Return a speller that takes as few tokens as the text can be put together of, whatever their tokenizer does.

        For lists that are sent as a grammar, with which every spelling is allowed.

        Raises:
            CompileError: The tokens spell no blank.
        """
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        characters = bytes_to_unicode()
        # All are alike good, so that the best row is the shortest. No text has the line break of those without a text.
        pieces = [
            ("".join(characters[byte] for byte in spelled) or f"\n{token}", -1.0)
            for token, spelled in enumerate(facts.token_bytes)
        ]
        fewest = Tokenizer(models.Unigram(pieces, unk_id=facts.token_bytes.index(b"")))
        fewest.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        speller = cls.from_rules(fewest.to_str(), facts)
        if speller.spell([BLANK]) == [None]:
            raise CompileError("the tokens of the model's tokenizer, as xgrammar reads them, spell no blank")
        return speller

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of the token bytes and of the rules of spelling."""
        return hashlib.sha256(f"{self.facts.digest} {self.rules}".encode()).hexdigest()

    def spell(self, texts: Sequence[str]) -> list[list[int] | None]:
        """Return the tokens of each text; None where they do not spell it, byte by byte."""
        rows = self._encode([self._before + text for text in texts]) if self._before else self._encode(texts)
        spelled = (row[self._num_before :] for row in rows)
        return [row if self._joined(row) == text.encode() else None for text, row in zip(texts, spelled, strict=True)]

    @cached_property
    def leads(self) -> dict[str, frozenset[str]]:
        """By mark, the first letters of the words that the tokenizer may draw it into; ``""`` for any letter."""
        found: dict[str, set[str]] = {}
        full = re.compile(b"|".join(re.escape(lead.encode()) for lead in LEADS))
        for token in self.facts.token_bytes:
            for match in full.finditer(token):
                _add_letter(found, match.group().decode(), token[match.end() :])
            if token and 0x80 <= token[0] < 0xC0:
                # The last bytes of a mark, and a letter.
                for lead in LEADS:
                    spelled = lead.encode()
                    for cut in range(1, len(spelled)):
                        if token.startswith(spelled[cut:]):
                            _add_letter(found, lead, token[len(spelled) - cut :])
        return {lead: frozenset(letters) for lead, letters in sorted(found.items())}

    @cached_property
    def possessives(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of the English 's behind a word, with either apostrophe, as far as they are separate tokens."""
        found = []
        for apostrophe in APOSTROPHES:
            for word in _PROBE_WORDS:
                alone, together = self.spell([word, f"{word}{apostrophe}{POSSESSIVE_LETTER}"])
                if alone and together and together[: len(alone)] == alone:
                    found.append(tuple(together[len(alone) :]))
                    break
        return tuple(found)

    def _joined(self, row: Sequence[int]) -> bytes:
        return b"".join(map(self.facts.token_bytes.__getitem__, row))


def byte_speller(stop: int = 0) -> Speller:
    """Return the speller of a tokenizer whose tokens are a stop token, with that id, and the 256 bytes behind it."""
    tokens = [bytes([byte]) for byte in range(256)]
    facts = TokenizerFacts.from_token_bytes([*tokens[:stop], b"", *tokens[stop:]])

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [[byte + (byte >= stop) for byte in text.encode()] for text in texts]

    return Speller(encode, facts, f"bytes around {stop}")


def has_own_spelling(tokenizer: Any) -> bool:
    """Return whether a Hugging Face tokenizer has a fast implementation, which can be asked for its spelling."""
    return getattr(tokenizer, "backend_tokenizer", None) is not None


def load_speller(model: str, *, trust_remote_code: bool = False) -> Speller:
    """Return the speller of the tokenizer of a Hugging Face id or a local folder; of its tokens, where it has none.

    Raises:
        CompileError: Its tokens cannot be read.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code)
    if has_own_spelling(tokenizer):
        return Speller.from_tokenizer(tokenizer)
    return Speller.of_tokens(TokenizerFacts.from_tokenizer(tokenizer))


def _add_letter(found: dict[str, set[str]], lead: str, behind: bytes) -> None:
    if not behind:
        return
    letter = behind.decode("utf-8", "ignore")[:1]
    if not letter:
        found.setdefault(lead, set()).add(_ANY)
    elif unicodedata.category(letter)[0] in "LMN":
        found.setdefault(lead, set()).add(letter)
