"""The tokens of a vocabulary: an id and the bytes that it adds to a text.

``decode_vocab`` reads them from a Hugging Face tokenizer. Unlike the automaton, which may let no special token be
spelled, a program that steers a model needs a name for every id: special and added tokens have the bytes of their text
here (``b"<|im_end|>"``).
"""

import json
import operator
import re
from collections.abc import Iterator
from typing import Any, Final, Literal, Self, TypeGuard, get_args

Fallback = Literal["tokenizer", "latin1", "replace"]

_BLANK: Final = "▁"
_BYTE_PIECE: Final = re.compile("<0x([0-9A-Fa-f]{2})>")
_PRINTABLE: Final = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))
_OTHERS: Final = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
_BYTE_OF: Final = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}
"""By character of a byte-level vocabulary, the byte that it stands for; the alphabet is GPT-2's."""


class Token(bytes):
    """The bytes of a token, with its id.

    It is a ``bytes``: ``b"".join``, slices and ``decode`` work on it. Two tokens are equal, and ordered, by id, since
    several may have the same bytes; a token and plain bytes are compared by content.
    """

    token_id: int
    """Its place in the vocabulary."""

    def __new__(cls, token_id: int, byte_string: bytes) -> Self:
        """Create a token of an id and its bytes.

        Raises:
            TypeError: The id is no integer, or the bytes are no ``bytes``.
        """
        if not isinstance(byte_string, bytes):
            raise TypeError(f"byte_string must be bytes, not {type(byte_string).__name__}")
        token = super().__new__(cls, byte_string)
        try:
            token.token_id = operator.index(token_id)
        except TypeError:
            raise TypeError(f"token_id must be an int, not {type(token_id).__name__}") from None
        return token

    @property
    def byte_string(self) -> bytes:
        """The bytes of the token as plain ``bytes``, without its id."""
        return bytes(self)

    @staticmethod
    def as_bytes(item: bytes) -> bytes:
        """Return the bytes of a token, and plain bytes as they are."""
        return item.byte_string if isinstance(item, Token) else item

    @staticmethod
    def is_plain_bytes(item: object) -> TypeGuard[bytes]:
        """Return whether an object is ``bytes``, and no token."""
        return isinstance(item, bytes) and not isinstance(item, Token)

    def __repr__(self) -> str:
        return f"Token(token_id={self.token_id}, byte_string={bytes(self)!r})"

    # Python asks ``bytes`` where these know no answer.

    def __eq__(self, other: object) -> bool:
        return self.token_id == other.token_id if isinstance(other, Token) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self.token_id != other.token_id if isinstance(other, Token) else NotImplemented

    def __lt__(self, other: bytes) -> bool:
        return self.token_id < other.token_id if isinstance(other, Token) else NotImplemented

    def __le__(self, other: bytes) -> bool:
        return self.token_id <= other.token_id if isinstance(other, Token) else NotImplemented

    def __gt__(self, other: bytes) -> bool:
        return self.token_id > other.token_id if isinstance(other, Token) else NotImplemented

    def __ge__(self, other: bytes) -> bool:
        return self.token_id >= other.token_id if isinstance(other, Token) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.token_id)

    def __reduce__(self) -> tuple[type[Self], tuple[int, bytes]]:
        return type(self), (self.token_id, bytes(self))


def decode_vocab(tokenizer: Any, byte2str_fallback: Fallback = "tokenizer") -> tuple[list[Token], list[str]]:
    """Read the tokens (ids with bytes) and their strings from a Hugging Face tokenizer.

    Args:
        tokenizer: A byte-level one (GPT-2, Llama 3, Qwen) or one of SentencePiece pieces (Llama 2, Gemma), fast or not.
        byte2str_fallback: The string of a token whose bytes are no UTF-8: ``tokenizer``, its piece; ``latin1``, a
            character for each byte; ``replace``, U+FFFD in place of what is not UTF-8.

    Returns:
        By id, the tokens and their strings. The bytes are what counts: strings of several tokens may be equal. An id
        without a token has ``b""``.

    Raises:
        ValueError: The fallback is unknown, or the tokenizer's pieces do not say what their bytes are.
    """
    if byte2str_fallback not in get_args(Fallback):
        raise ValueError(
            f"unknown byte2str_fallback {byte2str_fallback!r}: it must be one of {', '.join(get_args(Fallback))}"
        )
    try:
        byte_vocab = get_byte_vocab(tokenizer)
    except ValueError as error:
        raise ValueError(f"Could not decode byte representation of the vocabulary: {error}") from error
    tokens = [Token(i, token) for i, token in enumerate(byte_vocab)]
    return tokens, list(_strings(tokenizer, byte_vocab, byte2str_fallback))


def _strings(tokenizer: Any, byte_vocab: list[bytes], fallback: Fallback) -> Iterator[str]:
    """Yield the string of each token; where its bytes are no UTF-8, by ``fallback``."""
    for i, token in enumerate(byte_vocab):
        try:
            yield token.decode()
        except UnicodeDecodeError:
            piece = tokenizer.convert_ids_to_tokens(i) if fallback == "tokenizer" else None
            if isinstance(piece, str):
                yield piece
            elif fallback == "latin1":
                yield token.decode("latin1")
            else:
                yield token.decode(errors="replace")


def get_byte_vocab(tokenizer: Any) -> list[bytes]:
    """Return the bytes of each id of a Hugging Face tokenizer; ValueError where its pieces do not say them."""
    of_piece = _byte_level if _is_byte_level(tokenizer) else _sentence_piece
    added = {i: text for text, i in tokenizer.get_added_vocab().items()}
    num_ids = max(len(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1)
    byte_vocab = []
    for i, piece in enumerate(tokenizer.convert_ids_to_tokens(range(num_ids))):
        if isinstance(piece, bytes):
            # Tokenizers on tiktoken have no other spelling.
            byte_vocab.append(piece)
        elif i in added:
            byte_vocab.append((added[i] if of_piece is _byte_level else added[i].replace(_BLANK, " ")).encode())
        else:
            byte_vocab.append(of_piece(piece) if piece else b"")
    return byte_vocab


def _byte_level(piece: str) -> bytes:
    """Return the bytes of a byte-level piece; one with other characters is plain text."""
    # As the decoder of ``tokenizers`` has it: with a character outside the alphabet, the piece is text.
    return bytes(map(_BYTE_OF.__getitem__, piece)) if _BYTE_OF.keys() >= set(piece) else piece.encode()


def _sentence_piece(piece: str) -> bytes:
    """Return the bytes of a SentencePiece piece: ``<0x0A>`` is a byte, and ``▁`` a blank."""
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes.fromhex(byte[1]) if byte else piece.replace(_BLANK, " ").encode()


def _is_byte_level(tokenizer: Any) -> bool:
    """Return whether the pieces are byte-level, rather than SentencePiece's; ValueError where they are neither."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    # Its state alone: written out with its vocabulary, a tokenizer of 262,144 tokens takes 2 s.
    kinds = set(_kinds(json.loads(decoder.__getstate__()))) if decoder is not None else set()
    if kinds & {"ByteFallback", "Metaspace"}:
        return False
    if "ByteLevel" in kinds:
        return True
    if kinds:
        raise ValueError(
            f"the decoder of {tokenizer.name_or_path!r} is {', '.join(sorted(kinds))}, which is neither ByteLevel nor "
            "SentencePiece (ByteFallback, Metaspace): use a model whose tokenizer is one of them"
        )
    # One without a decoder to ask shows what it is by its pieces.
    pieces = tokenizer.get_vocab().keys()
    if hasattr(tokenizer, "sp_model") or pieces >= {f"<0x{byte:02X}>" for byte in range(256)}:
        return False
    if pieces >= _BYTE_OF.keys() or any(isinstance(piece, bytes) for piece in pieces):
        return True
    raise ValueError(
        f"{tokenizer.name_or_path!r} has no decoder to ask, and its vocabulary has the single bytes neither of a "
        "byte-level nor of a SentencePiece tokenizer: use a model whose tokenizer is one of them"
    )


def _kinds(decoder: Any) -> Iterator[str]:
    if isinstance(decoder, dict):
        yield decoder["type"]
        for part in decoder.get("decoders", ()):
            yield from _kinds(part)
