from pathlib import Path

import pytest
from transformers import ByT5Tokenizer

from vocab.automaton.tokenizer import TokenizerFacts, load_speller
from vocab.errors import CompileError


def test_special_tokens_add_no_text_and_others_add_their_bytes(smollm2_path: Path) -> None:
    facts = load_speller(str(smollm2_path)).facts
    assert len(facts) == 49_152
    assert not any(facts.token_bytes[:17])
    assert b" the" in facts.token_bytes
    assert "é".encode() in facts.token_bytes


def test_special_added_tokens_are_special_where_the_tokenizer_does_not_list_them(gemma_tokenizer_path: Path) -> None:
    facts = load_speller(str(gemma_tokenizer_path)).facts
    assert len(facts) == 262_144
    assert b"<unused0>" not in facts.token_bytes
    assert b"[multimodal]" in facts.token_bytes


def test_the_digest_is_of_the_bytes_and_not_of_a_name() -> None:
    one = TokenizerFacts.from_token_bytes([b"a", b"bc"])
    assert one.digest == TokenizerFacts.from_token_bytes([b"a", b"bc"]).digest
    assert one.digest != TokenizerFacts.from_token_bytes([b"ab", b"c"]).digest
    assert one.digest != TokenizerFacts.from_token_bytes([b"a", b"bc"], [0]).digest


def test_a_tokenizer_that_xgrammar_cannot_read_is_named() -> None:
    with pytest.raises(CompileError, match=r"xgrammar cannot read.*ByT5Tokenizer"):
        TokenizerFacts.from_tokenizer(ByT5Tokenizer())
