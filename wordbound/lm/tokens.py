"""The tokens of a vocabulary: an id and the bytes that it adds to a text.

``decode_vocab`` reads them from a Hugging Face tokenizer. Unlike the automaton, which may let no special token be
spelled, a program that steers a model needs a name for every id: special tokens have the bytes of their text here
(``b"<|im_end|>"``).
"""

import operator
from collections.abc import Iterator
from typing import Any, Literal, Self, TypeGuard, get_args

# By its name of genlm-backend, whose tests replace it here.
from vocab.automaton.tokenizer import read_token_bytes as get_byte_vocab
from vocab.errors import CompileError

Fallback = Literal["tokenizer", "latin1", "replace"]


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
    except CompileError as error:
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
