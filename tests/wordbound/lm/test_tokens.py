"""Tokens, and the vocabularies of tokenizers of every kind."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tests.slow_tokenizer import write_slow_tokenizer
from vocab.automaton.tokenizer import TokenizerFacts
from wordbound.lm import Token, decode_vocab


class Marked(Token):
    pass


TEXT = "Naïve “Zürich” – 東京, \t\n  ¿qué? ’•¶∂ƒ ☃ 🙂 x = 1"


def assert_its_tokens_spell(tokenizer: Any, text: str) -> None:
    tokens, strings = decode_vocab(tokenizer)
    ids = tokenizer.encode(text, add_special_tokens=False)
    # Some tokenizers put a blank before a text.
    assert b"".join(tokens[i] for i in ids).removeprefix(b" ") == text.encode()
    assert [token.token_id for token in tokens] == list(range(len(tokens)))
    assert len(strings) == len(tokens)


def assert_as_the_automaton_has_them(tokenizer: Any) -> None:
    """Those that it may spell have the bytes that it knows; special ones, which it may not, those of their text."""
    tokens, _ = decode_vocab(tokenizer)
    known = TokenizerFacts.from_tokenizer(tokenizer).token_bytes
    differing = {i for i, token in enumerate(tokens) if token.byte_string != known[i]}
    assert differing <= set(tokenizer.added_tokens_decoder)
    assert all(tokens[i] == tokenizer.convert_ids_to_tokens(i).encode() for i in differing)


def small_tokenizer(decoder: Any, vocabulary: dict[str, int]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=next(iter(vocabulary))))
    if decoder is not None:
        tokenizer.decoder = decoder
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def test_byte_level_tokens_and_pieces_of_fast_and_slow_tokenizers_spell_the_text(
    smollm2_path: Path, gemma_tokenizer_path: Path, tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2_path)
    tokens, strings = decode_vocab(tokenizer)
    stop = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert (tokens[stop].byte_string, strings[stop]) == (b"<|im_end|>", "<|im_end|>")
    assert_its_tokens_spell(AutoTokenizer.from_pretrained(gemma_tokenizer_path), TEXT)
    slow = AutoTokenizer.from_pretrained(write_slow_tokenizer(tmp_path))
    for one, text in ((tokenizer, TEXT), (slow, "naïve 東京")):
        assert_its_tokens_spell(one, text)
        assert_as_the_automaton_has_them(one)


BYTES = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"▁a": 256}
NESTED = decoders.Sequence([decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])])


def test_pieces_are_read_as_their_decoder_has_them_or_without_one_as_the_bytes_among_them_say() -> None:
    for decoder, vocabulary, spelled in (
        # A piece that only contains the name of a byte is text, and an id without a token has no bytes.
        (decoders.ByteFallback(), {"<0x0A>": 0, "a<0x0A>": 1, "▁a": 2}, [b"\n", b"a<0x0A>", b" a"]),
        (decoders.ByteLevel(), {"a": 0, "Ġb": 3}, [b"a", b"", b"", b" b"]),
        (NESTED, BYTES, [*(bytes([byte]) for byte in range(256)), b" a"]),
        (None, BYTES, [*(bytes([byte]) for byte in range(256)), b" a"]),
        (decoders.ByteLevel(), BYTES, [*(bytes([byte]) for byte in range(256)), b" a"]),
    ):
        assert [token.byte_string for token in decode_vocab(small_tokenizer(decoder, vocabulary))[0]] == spelled
    for other in (decoders.WordPiece(), None):
        with pytest.raises(ValueError, match="Use a model that has one of these"):
            decode_vocab(small_tokenizer(other, {"play": 0, "##ing": 1}))


def test_bytes_that_are_no_text_have_the_string_that_is_asked_for() -> None:
    tokenizer = small_tokenizer(decoders.ByteLevel(), {"ĠÃ": 0})
    strings = {fallback: decode_vocab(tokenizer, fallback)[1] for fallback in ("tokenizer", "latin1", "replace")}
    assert strings == {"tokenizer": ["ĠÃ"], "latin1": [" Ã"], "replace": [" \N{REPLACEMENT CHARACTER}"]}
    with pytest.raises(ValueError, match="tokenizer, latin1, replace"):
        decode_vocab(None, "utf-8")  # type: ignore[arg-type]


def test_a_number_of_numpy_is_an_id_and_a_text_is_none_and_a_copy_is_of_its_class() -> None:
    token = Token(np.int64(7), b"a")  # type: ignore[arg-type]
    assert type(token.token_id) is int
    with pytest.raises(TypeError, match="token_id must be an int, not str"):
        Token("7", b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="byte_string must be bytes, not str"):
        Token(7, "a")  # type: ignore[arg-type]
    copied = copy.deepcopy(Marked(3, b"a"))
    assert (type(copied), copied.token_id, copied.byte_string) == (Marked, 3, b"a")
