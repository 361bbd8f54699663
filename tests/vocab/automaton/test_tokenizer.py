"""What is read of a tokenizer: the bytes of its tokens, and how it spells texts."""

from pathlib import Path

import pytest
import xgrammar
from transformers import AutoTokenizer, ByT5Tokenizer

from tests.slow_tokenizer import NUM_PIECES, write_slow_tokenizer
from tests.small_tokenizer import small_speller
from tests.vocab.automaton.test_own_spelling import byte_pairs_that_draw_marks_in, pieces_with_a_dummy_blank
from tests.vocab.toys import toy_speller, toy_tokenizer
from vocab.automaton.tokenizer import (
    Speller,
    TokenizerFacts,
    byte_speller,
    has_own_spelling,
    load_speller,
    read_token_bytes,
)
from vocab.errors import CompileError


def spelled(speller: Speller, text: str) -> list[bytes] | None:
    [tokens] = speller.spell([text])
    return None if tokens is None else [speller.facts.token_bytes[token] for token in tokens]


def test_special_tokens_add_no_text_and_others_add_their_bytes(smollm2_path: Path, gemma_tokenizer_path: Path) -> None:
    speller = load_speller(str(smollm2_path))
    facts = speller.facts
    assert len(facts) == 49_152
    assert not any(facts.token_bytes[:17])
    assert {b" the", "é".encode()} <= set(facts.token_bytes)
    assert spelled(speller, "<|im_end|>") is None
    assert spelled(speller, " dog") == [b" dog"]
    assert [b"".join(facts.token_bytes[i] for i in row) for row in speller.possessives] == [b"'s", "’s".encode()]
    tokenizer = AutoTokenizer.from_pretrained(smollm2_path)
    tokenizer.backend_tokenizer.enable_padding(length=9)
    assert spelled(Speller.from_tokenizer(tokenizer), "a") == [b"a"]
    # Added tokens are special where the tokenizer does not list them.
    facts = load_speller(str(gemma_tokenizer_path)).facts
    assert len(facts) == 262_144
    assert b"<unused0>" not in facts.token_bytes
    assert b"[multimodal]" in facts.token_bytes


def test_each_token_has_the_bytes_that_xgrammar_reads(
    smollm2_path: Path, gemma_tokenizer_path: Path, tmp_path: Path
) -> None:
    for path in (smollm2_path, gemma_tokenizer_path, write_slow_tokenizer(tmp_path)):
        tokenizer = AutoTokenizer.from_pretrained(path)
        # Decoded like any other token, although its letters stand for themselves.
        tokenizer.add_tokens(["naïve"])
        assert read_token_bytes(tokenizer) == xgrammar.TokenizerInfo.from_huggingface(tokenizer).decoded_vocab


def test_digests_are_of_bytes_and_rules_and_not_of_a_name() -> None:
    facts = [[b"a", b"bc"], [b"ab", b"c"]]
    digests = [TokenizerFacts.from_token_bytes(tokens).digest for tokens in (*facts, facts[0])]
    assert digests[0] == digests[2] != digests[1]
    assert TokenizerFacts.from_token_bytes(facts[0], [0]).digest not in digests
    first, second = small_speller(["the"]), small_speller(["cat"])
    assert first.digest == small_speller(["the"]).digest != second.digest
    assert Speller(lambda texts: [[1] for _ in texts], first.facts, "other").digest != first.digest


def test_a_text_is_spelled_as_the_tokenizer_does_byte_by_byte() -> None:
    speller = small_speller(["the", "cat"])
    assert spelled(speller, " the") == [b" the"]
    assert spelled(speller, "cat!") == [b"cat", b"!"]
    lacking = toy_speller(toy_tokenizer(["ñu"], lacking="ñ".encode()))
    assert spelled(lacking, "niño") is None
    assert spelled(lacking, "ñu") == ["ñu".encode()]
    dummy = Speller.from_tokenizer(pieces_with_a_dummy_blank())
    for text in ("the", " the", "."):
        assert b"".join(spelled(dummy, text) or []) == text.encode()


def test_marks_that_are_drawn_into_words_are_found_in_the_tokens_also_where_one_is_cut() -> None:
    assert byte_speller().leads == {}
    speller = toy_speller(toy_tokenizer(["(do", '"T', " —x", "¿Qué", ". a", "(1"]))
    assert speller.leads == {"(": {b"d", b"1"}, '"': {b"T"}, "—": {b"x"}, "¿": {b"Q"}}
    assert {"—", "'"} <= set(Speller.from_tokenizer(byte_pairs_that_draw_marks_in()).leads)
    cut = toy_speller(TokenizerFacts((*toy_tokenizer([]).token_bytes, "“".encode()[1:] + b"a", "(é".encode()[:-1])))
    assert cut.leads["“"] == {b"a"}
    assert cut.leads["("] == {"é".encode()[:1]}


def test_a_tokenizer_that_is_not_fast_spells_any_text_with_its_tokens(tmp_path: Path) -> None:
    path = write_slow_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    assert not has_own_spelling(tokenizer)
    with pytest.raises(CompileError, match="no fast implementation"):
        Speller.from_tokenizer(tokenizer)
    speller = load_speller(str(path))
    for text in ("the", " the dog's", "\n", "“Ñandú", "<|im_end|>"):
        assert b"".join(spelled(speller, text) or []).decode() == text
    assert spelled(speller, " the") == [b" the"]
    assert len(speller.facts) == NUM_PIECES


def test_tokens_spell_a_text_in_as_few_as_they_can() -> None:
    speller = Speller.of_tokens(toy_tokenizer(["ab", "abc", "bcd", "de"], lacking=b"x"))
    for text, pieces in {"abcd": [b"a", b"bcd"], "abcde": [b"abc", b"de"], "": [], "ax": None}.items():
        assert spelled(speller, text) == pieces


def test_what_cannot_be_read_or_spells_no_blank_is_refused() -> None:
    with pytest.raises(CompileError, match=r"ByT5Tokenizer cannot be read.*decoder \(none\).*Use a model"):
        TokenizerFacts.from_tokenizer(ByT5Tokenizer())
    with pytest.raises(CompileError, match="no blank"):
        Speller.of_tokens(toy_tokenizer([], lacking=b" "))
