"""What the automaton must know of a tokenizer: the bytes that each token adds to a text, and how it spells words.

``read_token_bytes`` undoes byte-level and byte-fallback spellings, and gives what ``xgrammar.TokenizerInfo`` gives.
Special tokens get no bytes in ``TokenizerFacts``, so that no text can be spelled with them.

transformers is imported where a model's tokenizer is loaded, and not with the module: it brings torch along, 4 s and
250 MB that a process which knows the bytes already does without.

The spelling of words is asked of the tokenizer itself, in batches.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters
from typing import Any, Final, Self, TypeAlias

from vocab.errors import CompileError
from vocab.marks import APOSTROPHES, BLANK, JOINING_DASH, LINE_BREAK, OPEN_MARKS, POSSESSIVE_LETTER


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
            CompileError: Its vocabulary does not say which bytes its tokens have.
        """
        return cls.from_token_bytes(read_token_bytes(tokenizer), sorted(special_ids(tokenizer)))

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


_BYTE_PIECES: Final = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}
_PRINTABLE: Final = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))
_OTHERS: Final = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
_BYTE_OF: Final = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}
"""By character of a byte-level vocabulary, the byte that it stands for; the alphabet is GPT-2's."""


def read_token_bytes(tokenizer: Any) -> list[bytes]:
    """Read the bytes of each token id of a loaded Hugging Face tokenizer, special ones those of their names.

    They are the bytes that the tokenizer's decoder writes. An id without a token has ``b""``.

    Args:
        tokenizer: A byte-level one (GPT-2, Llama 3, Qwen) or one of SentencePiece pieces (Llama 2, Gemma), fast or not.

    Raises:
        CompileError: Its vocabulary does not say which bytes its tokens have.
    """
    vocabulary: dict[str | bytes, int] = tokenizer.get_vocab()
    decode = _byte_level if _is_byte_level(tokenizer, vocabulary) else _sentence_piece
    token_bytes = [b""] * max(len(vocabulary), max(vocabulary.values(), default=-1) + 1)
    for piece, token in vocabulary.items():
        # Tokenizers on tiktoken have the bytes themselves.
        token_bytes[token] = piece if isinstance(piece, bytes) else decode(piece)
    return token_bytes


def _byte_level(piece: str) -> bytes:
    """Return the bytes of a byte-level piece; one with a character outside the alphabet is plain text."""
    try:
        return bytes(map(_BYTE_OF.__getitem__, piece))
    except KeyError:
        return piece.encode()


def _sentence_piece(piece: str) -> bytes:
    """Return the bytes of a SentencePiece piece: ``<0x0A>`` is a byte, and ``▁`` a blank."""
    return _BYTE_PIECES.get(piece) or piece.replace("▁", " ").encode()


def _is_byte_level(tokenizer: Any, vocabulary: Mapping[str | bytes, int]) -> bool:
    """Return whether the pieces are byte-level, rather than SentencePiece's; CompileError where they are neither."""
    # The vocabulary before the decoder: transformers rebuilds some tokenizers with another decoder.
    if sum(piece in vocabulary for piece in _BYTE_PIECES) >= 128:
        return False
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    # Its state alone: written out with its vocabulary, a tokenizer of 262,144 tokens takes 2 s.
    kinds = set(_kinds(json.loads(decoder.__getstate__()))) if decoder is not None else set()
    if "ByteLevel" in kinds or _has_byte_level_pieces(vocabulary):
        return True
    if kinds & {"ByteFallback", "Metaspace"}:
        return False
    raise CompileError(
        f"the bytes of the tokens of {type(tokenizer).__name__} cannot be read: neither its vocabulary nor its decoder "
        f"({', '.join(sorted(kinds)) or 'none'}) is byte-level or SentencePiece's. Use a model that has one of these"
    )


def _has_byte_level_pieces(vocabulary: Mapping[str | bytes, int]) -> bool:
    """Return whether single bytes are pieces, and all but a few added ones are of the byte-level alphabet."""
    if sum(character in vocabulary for character in _BYTE_OF) < 128:
        return any(isinstance(piece, bytes) for piece in vocabulary)
    return sum(_BYTE_OF.keys() >= set(piece) for piece in vocabulary) >= 0.99 * len(vocabulary)


def _kinds(decoder: Any) -> Iterator[str]:
    yield decoder["type"]
    for part in decoder.get("decoders", ()):
        yield from _kinds(part)


LEADS: Final = APOSTROPHES + JOINING_DASH + LINE_BREAK + OPEN_MARKS
"""What may stand directly before a word, besides a blank."""

_NUM_TRIED: Final = 8000
_NUM_TRIED_OF_A_KIND: Final = 200
_PROBE: Final = "\n"
_PROBE_WORDS: Final = ("dog", "a", "x")

Encode: TypeAlias = Callable[[Sequence[str]], list[list[int]]]
"""Returns the token ids of each text, without special tokens."""


class Speller:
    """A tokenizer's own spelling of texts, as they are spelled inside a longer text.

    Args:
        encode: The tokenizer, in batches.
        facts: The bytes of its tokens.
        rules: All that ``encode`` depends on: of a fast tokenizer, its JSON.
        is_own: Whether the tokenizer spells so; not where the spelling is made up, as by ``of_tokens``.
    """

    def __init__(self, encode: Encode, facts: TokenizerFacts, rules: str, *, is_own: bool = True) -> None:
        self.facts = facts
        self.rules = rules
        self.is_own = is_own
        self._encode = encode
        # Tokenizers with a dummy prefix put a blank before a text that has none.
        [probe] = encode(["a"])
        self._before = "" if self._join(probe) == b"a" else _PROBE
        self._num_before = len(encode([self._before])[0]) if self._before else 0

    @classmethod
    def from_rules(cls, rules: str, facts: TokenizerFacts, *, is_own: bool = True) -> Self:
        """Make the speller of a tokenizer of the ``tokenizers`` library, given as its JSON."""
        # Imported where it is needed: an engine reads what was spelled.
        from tokenizers import Tokenizer

        backend: Any = Tokenizer.from_str(rules)
        backend.no_padding()
        backend.no_truncation()

        def encode(texts: Sequence[str]) -> list[list[int]]:
            return [row.ids for row in backend.encode_batch_fast(list(texts), add_special_tokens=False)]

        return cls(encode, facts, rules, is_own=is_own)

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> Self:
        """Make the speller of a fast Hugging Face tokenizer.

        Raises:
            CompileError: It has no fast implementation.
        """
        if not has_own_spelling(tokenizer):
            raise CompileError("the model's tokenizer has no fast implementation, so its spelling is not known")
        return cls.from_rules(tokenizer.backend_tokenizer.to_str(), TokenizerFacts.from_tokenizer(tokenizer))

    @classmethod
    def of_tokens(cls, facts: TokenizerFacts) -> Self:
        """Make a speller that spells a text with the fewest tokens possible, whatever their tokenizer does.

        For lists that are sent as a grammar, with which every spelling is allowed.

        Raises:
            CompileError: The tokens spell no blank.
        """
        from tokenizers import Tokenizer, models, pre_tokenizers

        characters = {byte: character for character, byte in _BYTE_OF.items()}
        # All are alike good, so that the best row is the shortest. No text has the line break of those without a text.
        pieces = [
            ("".join(characters[byte] for byte in spelled) or f"\n{token}", -1.0)
            for token, spelled in enumerate(facts.token_bytes)
        ]
        fewest = Tokenizer(models.Unigram(pieces, unk_id=facts.token_bytes.index(b"")))
        fewest.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        speller = cls.from_rules(fewest.to_str(), facts, is_own=False)
        if speller.spell([BLANK]) == [None]:
            raise CompileError("the tokens of the model's tokenizer spell no blank")
        return speller

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of the token bytes and of the rules of spelling."""
        return hashlib.sha256(f"{self.facts.digest} {self.rules}".encode()).hexdigest()

    def spell(self, texts: Sequence[str]) -> list[list[int] | None]:
        """Tokenize each text as inside a longer one; None where the tokens do not spell it, byte by byte."""
        rows = self._encode([self._before + text for text in texts]) if self._before else self._encode(texts)
        spelled = (row[self._num_before :] for row in rows)
        return [row if self._join(row) == text.encode() else None for text, row in zip(texts, spelled, strict=True)]

    @cached_property
    def leads(self) -> dict[str, frozenset[bytes]]:
        """Return, by mark, how words begin that may share a token with it: a letter's bytes, or only the first."""
        found: dict[str, set[bytes]] = {}
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
        for lead, letters in self._leads_that_cut().items():
            is_ascii = all(map(str.isascii, letters))
            found.setdefault(lead, set()).update(map(str.encode, ascii_letters) if is_ascii else [b""])
        return {lead: frozenset(letters) for lead, letters in sorted(found.items())}

    @cached_property
    def possessives(self) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of the English 's after a word, with either apostrophe, where they are separate tokens."""
        found = []
        for apostrophe in APOSTROPHES:
            for word in _PROBE_WORDS:
                alone, together = self.spell([word, f"{word}{apostrophe}{POSSESSIVE_LETTER}"])
                if alone and together and together[: len(alone)] == alone:
                    found.append(tuple(together[len(alone) :]))
                    break
        return tuple(found)

    def _leads_that_cut(self) -> dict[str, set[str]]:
        """Find, by trial, the marks after which words are tokenized otherwise, with first letters of such words.

        Some tokenizers take a mark and the letters of English alone after it together, or what looks like "'re".
        """
        words = list(self._sample_word_tokens(_NUM_TRIED).values())
        mixed = [word for word in words if word[0].isascii() and not word.isascii()]
        # Twice, as a tokenizer may have tokens that stand alone only.
        words = [word * 2 for kind in (words, mixed) for word in kind[:: max(len(kind) // _NUM_TRIED_OF_A_KIND, 1)]]
        alone = self.spell(words)
        found: dict[str, set[str]] = {}
        for lead, mark in zip(LEADS, self.spell(LEADS), strict=True):
            for word, row, together in zip(words, alone, self.spell([lead + word for word in words]), strict=True):
                if row and mark and together and together[: len(mark)] == mark and together[len(mark) :] != row:
                    found.setdefault(lead, set()).add(word[0])
        return found

    @cached_property
    def lone_tokens(self) -> frozenset[int]:
        """Return the tokens of whole words that the tokenizer does not use after a mark.

        Some tokenizers look up a word as a whole before they put its parts together, which may lead elsewhere.
        """
        mark = min(OPEN_MARKS, key=lambda lead: len(self.leads.get(lead, ())))
        [alone] = self.spell([mark])

        def find_missed(words: dict[int, str]) -> frozenset[int]:
            rows = self.spell([mark + word for word in words.values()])
            return frozenset(token for token, row in zip(words, rows, strict=True) if row != [*(alone or ()), token])

        few = self._sample_word_tokens(_NUM_TRIED)
        lone = find_missed(few)
        # Tokens that are never used tell nothing.
        is_used = any(self.spell([few[token]]) == [[token]] for token in lone)
        return find_missed(self._sample_word_tokens(len(self.facts))) if is_used else frozenset()

    def _sample_word_tokens(self, num_tried: int) -> dict[int, str]:
        """Sample tokens that are words, to try how the tokenizer spells after marks: ``num_tried`` of all, evenly."""
        step = max(len(self.facts) // num_tried, 1)
        tokens = range(0, len(self.facts), step)
        # A letter that is cut becomes a mark.
        texts = ((token, self.facts.token_bytes[token].decode("utf-8", "replace")) for token in tokens)
        return {token: text for token, text in texts if len(text) > 1 and text.isalpha()}

    def drawn_possessives(self, word: str) -> tuple[str, ...]:
        """Return the forms of the English 's that may share a token with the word, or be spelled otherwise after it."""
        after_blank, ends_in_mark = BLANK + word, not word[-1].isalnum()
        return tuple(
            apostrophe + POSSESSIVE_LETTER
            for apostrophe, (ends, sizes) in self._possessive_ends.items()
            if ends_in_mark or any(after_blank[-size:] in ends for size in sizes)
        )

    @cached_property
    def _possessive_ends(self) -> dict[str, tuple[frozenset[str], tuple[int, ...]]]:
        """Return, by apostrophe, the ends of words that share a token with it ("er" of "er's"), and their lengths."""
        found = {}
        for apostrophe in APOSTROPHES:
            ending = (apostrophe + POSSESSIVE_LETTER).encode()
            begun = tuple(ending[:size] for size in range(1, len(ending) + 1))
            ends: set[str] = set()
            for token in self.facts.token_bytes:
                if token.endswith(begun):
                    before = next(token.removesuffix(end) for end in begun if token.endswith(end))
                    text = before.decode("utf-8", "ignore").lstrip(LEADS)
                    if text and _is_letter(text[-1]):
                        ends.add(text)
            found[apostrophe] = frozenset(ends), tuple(sorted(set(map(len, ends))))
        return found

    def _join(self, row: Sequence[int]) -> bytes:
        return b"".join(map(self.facts.token_bytes.__getitem__, row))


def byte_speller(stop: int = 0) -> Speller:
    """Make the speller of a toy tokenizer: a token for each byte, and the stop token at the id ``stop``."""
    tokens = [bytes([byte]) for byte in range(256)]
    facts = TokenizerFacts.from_token_bytes([*tokens[:stop], b"", *tokens[stop:]])

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [[byte + (byte >= stop) for byte in text.encode()] for text in texts]

    return Speller(encode, facts, f"bytes around {stop}")


def has_own_spelling(tokenizer: Any) -> bool:
    """Return whether a Hugging Face tokenizer has a fast implementation, which can be asked for its spelling."""
    return getattr(tokenizer, "backend_tokenizer", None) is not None


def load_speller(model: str, *, trust_remote_code: bool = False) -> Speller:
    """Load the speller of a model's tokenizer (Hugging Face id or local folder); of its tokens, if it is not fast.

    Raises:
        CompileError: Its tokens cannot be read.
    """
    from transformers import AutoTokenizer

    return speller_of(AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code))


def speller_of(tokenizer: Any) -> Speller:
    """Make the speller of a loaded tokenizer; of its tokens, if it is not fast."""
    if has_own_spelling(tokenizer):
        return Speller.from_tokenizer(tokenizer)
    return Speller.of_tokens(TokenizerFacts.from_tokenizer(tokenizer))


def _add_letter(found: dict[str, set[bytes]], lead: str, following: bytes) -> None:
    """Record the letter, or the first bytes of one, that follows a mark inside a token."""
    if not following:
        return
    letter = following.decode("utf-8", "ignore")[:1]
    if not letter:
        found.setdefault(lead, set()).add(following)
    elif _is_letter(letter):
        found.setdefault(lead, set()).add(letter.encode())


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN"
