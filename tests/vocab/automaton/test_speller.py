from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.slow_tokenizer import NUM_PIECES, write_slow_tokenizer
from tests.small_tokenizer import small_speller
from tests.vocab.automaton.test_own_spelling import byte_pairs_that_draw_marks_in, pieces_with_a_dummy_blank
from tests.vocab.toys import toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import Speller, byte_speller, has_own_spelling, load_speller
from vocab.compiler.worker import load_stored_tokenizer, store_tokenizer
from vocab.errors import CompileError


def spelled(speller: Speller, text: str) -> list[bytes] | None:
    [tokens] = speller.spell([text])
    return None if tokens is None else [speller.facts.token_bytes[token] for token in tokens]


def test_a_text_is_spelled_as_the_tokenizer_does() -> None:
    speller = small_speller(["the", "cat"])
    assert spelled(speller, " the") == [b" the"]
    assert spelled(speller, "cat!") == [b"cat", b"!"]


def test_a_text_that_the_tokens_do_not_spell_byte_by_byte_has_no_spelling() -> None:
    speller = toy_speller(toy_tokenizer(["ñu"], lacking="ñ".encode()))
    assert spelled(speller, "niño") is None
    assert spelled(speller, "ñu") == ["ñu".encode()]


def test_special_tokens_spell_nothing(smollm2_path: Path) -> None:
    speller = load_speller(str(smollm2_path))
    assert spelled(speller, "<|im_end|>") is None
    assert spelled(speller, " dog") == [b" dog"]


def test_a_dummy_blank_is_left_out() -> None:
    speller = Speller.from_tokenizer(pieces_with_a_dummy_blank())
    for text in ("the", " the", "."):
        assert b"".join(spelled(speller, text) or []) == text.encode()


def test_marks_that_are_drawn_into_words_are_found_in_the_tokens() -> None:
    assert byte_speller().leads == {}
    speller = toy_speller(toy_tokenizer(["(do", '"T', " —x", "¿Qué", ". a", "(1"]))
    assert speller.leads == {"(": {b"d", b"1"}, '"': {b"T"}, "—": {b"x"}, "¿": {b"Q"}}
    assert {"—", "'"} <= set(Speller.from_tokenizer(byte_pairs_that_draw_marks_in()).leads)


def test_a_mark_or_a_letter_may_be_cut() -> None:
    facts = toy_tokenizer([])
    cut_mark = [*facts.token_bytes, "“".encode()[1:] + b"a", "(é".encode()[:-1]]
    speller = toy_speller(type(facts)(tuple(cut_mark)))
    assert speller.leads["“"] == {b"a"}
    assert speller.leads["("] == {"é".encode()[:1]}


def test_the_possessive_is_what_follows_a_word(smollm2_path: Path) -> None:
    speller = load_speller(str(smollm2_path))
    token_bytes = speller.facts.token_bytes
    assert [b"".join(token_bytes[i] for i in tokens) for tokens in speller.possessives] == [b"'s", "’s".encode()]


def test_the_digest_names_bytes_and_rules() -> None:
    first, second = small_speller(["the"]), small_speller(["cat"])
    assert first.digest == small_speller(["the"]).digest != second.digest
    other_rules = Speller(first._encode, first.facts, "other")
    assert other_rules.digest != first.digest


def test_a_tokenizer_without_a_fast_implementation_has_no_spelling_of_its_own(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(write_slow_tokenizer(tmp_path))
    assert not has_own_spelling(tokenizer)
    with pytest.raises(CompileError, match="no fast implementation"):
        Speller.from_tokenizer(tokenizer)


def test_then_its_tokens_spell_any_text_and_the_same_after_they_were_stored(tmp_path: Path) -> None:
    speller = load_speller(str(write_slow_tokenizer(tmp_path)))
    store = ArtefactStore(tmp_path / "store", 2**30)
    store_tokenizer(speller, store)
    texts = ["the", " the dog's", "\n", "“Ñandú", "<|im_end|>"]
    for one in (speller, load_stored_tokenizer(speller.digest, store)):
        assert one.digest == speller.digest
        assert [b"".join(spelled(one, text) or []).decode() for text in texts] == texts
    assert spelled(speller, " the") == [b" the"]
    assert len(speller.facts) == NUM_PIECES


def test_tokens_spell_a_text_in_as_few_as_they_can() -> None:
    speller = Speller.of_tokens(toy_tokenizer(["ab", "abc", "bcd", "de"], lacking=b"x"))
    assert spelled(speller, "abcd") == [b"a", b"bcd"]
    assert spelled(speller, "abcde") == [b"abc", b"de"]
    assert spelled(speller, "") == []
    assert spelled(speller, "ax") is None


def test_tokens_without_a_blank_spell_no_list() -> None:
    with pytest.raises(CompileError, match="no blank"):
        Speller.of_tokens(toy_tokenizer([], lacking=b" "))


def test_one_with_padding_spells_no_padding(smollm2_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2_path)
    tokenizer.backend_tokenizer.enable_padding(length=9)
    assert spelled(Speller.from_tokenizer(tokenizer), "a") == [b"a"]
