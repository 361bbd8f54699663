"""The token automaton against the reference recogniser, on lists and tokens that hypothesis makes up."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import recogniser
from tests.vocab.toys import STOP, allowed_tokens, can_spell, matcher_of, toy_automaton, toy_tokenizer, word_list
from vocab.automaton.automaton import artefact_digest, compile_automaton
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import CompileError, EmptyWordListError
from vocab.options import ListOptions

WORDS = st.lists(
    st.one_of(
        st.text("abé'’-", min_size=1, max_size=4),
        st.sampled_from(["a b", "a b c", "b c", "l'", "l'a", "A", "Ab", "aB", "ß", "i", "’", "a.", '"a"', "a-b", "—"]),
    )
    .map(str.strip)
    .filter(bool),
    min_size=1,
    max_size=6,
    unique=True,
)
LETTERS = ["é", "É", "ß", "İ", "’", "—"]
"""Tokens for the characters of more than one byte, so that a walk need not stop inside one."""

PIECES = st.lists(
    st.one_of(
        st.text("abéA '’.-—\n\"", min_size=2, max_size=4), st.sampled_from([" a", " b", ". A", "a b", " l'", "—a"])
    ),
    max_size=10,
    unique=True,
)


@settings(max_examples=settings().max_examples * 3 // 2)
@given(
    words=WORDS,
    pieces=PIECES,
    lang=st.sampled_from(["en", "es", "fr", "tr"]),
    case=st.sampled_from(["auto", "sentence", "any", "listed"]),
    layout=st.sampled_from(["prose", "lines"]),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_allows_a_token_exactly_where_the_recogniser_reads_the_beginning_of_a_text(
    words: list[str], pieces: list[str], lang: str, case: str, layout: str, seed: int, data: st.DataObject
) -> None:
    options = ListOptions(case=case, layout=layout)  # type: ignore[arg-type]
    automaton, tokenizer = toy_automaton(words, pieces + LETTERS, lang=lang, options=options)
    n_words = data.draw(st.integers(1, len(words)))
    judge = recogniser.recogniser(tuple(words), n_words, lang, case, layout)
    matcher = matcher_of(automaton, n_words)
    walk, text = random.Random(seed), ""
    for _ in range(12):
        allowed = allowed_tokens(matcher, len(tokenizer))
        assert (STOP in allowed) == judge.is_text(text)
        whole = {i for i in range(1, len(tokenizer)) if _is_text(tokenizer.token_bytes[i])}
        expected = {i for i in whole if judge.is_prefix(text + tokenizer.token_bytes[i].decode())}
        assert allowed & whole == expected
        if not expected:
            assert not judge.is_prefix("")
            return
        token = walk.choice(sorted(expected))
        assert matcher.accept_token(token)
        text += tokenizer.token_bytes[token].decode()


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(words=WORDS, pieces=PIECES, lang=st.sampled_from(["en", "es", "fr"]), seed=st.integers(0, 2**16))
def test_never_leaves_a_state_without_a_token_even_between_the_bytes_of_a_character(
    words: list[str], pieces: list[str], lang: str, seed: int
) -> None:
    automaton, tokenizer = toy_automaton(words, pieces, lang=lang)
    matcher = matcher_of(automaton, len(words))
    walk = random.Random(seed)
    if automaton.fewest_tokens(len(words)) is None:
        assert not allowed_tokens(matcher, len(tokenizer))
        return
    for _ in range(30):
        allowed = allowed_tokens(matcher, len(tokenizer)) - {STOP}
        assert allowed
        assert matcher.accept_token(walk.choice(sorted(allowed)))


@given(
    words=WORDS,
    pieces=PIECES,
    lang=st.sampled_from(["en", "es", "fr"]),
    max_tokens=st.integers(1, 12),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_every_walk_within_a_budget_ends_in_a_whole_text(
    words: list[str], pieces: list[str], lang: str, max_tokens: int, seed: int, data: st.DataObject
) -> None:
    automaton, tokenizer = toy_automaton(words, pieces, lang=lang)
    n_words = data.draw(st.integers(1, len(words)))
    fewest = automaton.fewest_tokens(n_words)
    if fewest is None or fewest > max_tokens:
        return
    judge = recogniser.recogniser(tuple(words), n_words, lang, "auto", "prose")
    matcher = matcher_of(automaton, n_words, max_tokens)
    walk, text = random.Random(seed), b""
    for _ in range(max_tokens):
        allowed = allowed_tokens(matcher, len(tokenizer))
        assert allowed
        token = walk.choice(sorted(allowed))
        assert matcher.accept_token(token)
        if matcher.is_terminated:
            break
        text += tokenizer.token_bytes[token]
    assert judge.is_text(text.decode())


def test_a_rare_word_that_begins_a_frequent_one_is_not_allowed() -> None:
    automaton, tokenizer = toy_automaton(["casas", "sol", "casa"], ["casa", "cas", "as", " casa"])
    assert can_spell(matcher_of(automaton, 3), tokenizer, "casa")
    assert not can_spell(matcher_of(automaton, 2), tokenizer, "casa")
    assert can_spell(matcher_of(automaton, 2), tokenizer, "casas")


def test_one_automaton_serves_every_n() -> None:
    words = ["a", "ab", "abc", "b", "ba"]
    automaton, tokenizer = toy_automaton(words, ["ab", " a"])
    for n_words in range(1, 6):
        writable = {word for word in words if can_spell(matcher_of(automaton, n_words), tokenizer, word)}
        assert writable == set(words[:n_words])


def test_a_phrase_needs_its_own_rank_or_those_of_its_words() -> None:
    automaton, tokenizer = toy_automaton(["in", "front of", "front", "of"], [" front", " of"])
    assert can_spell(matcher_of(automaton, 2), tokenizer, "in front of")
    assert not can_spell(matcher_of(automaton, 2), tokenizer, "front")
    assert not can_spell(matcher_of(automaton, 3), tokenizer, "of")
    assert can_spell(matcher_of(automaton, 4), tokenizer, "of front")


def test_a_capital_for_sentence_starts_only_is_kept_out_of_sentences() -> None:
    automaton, tokenizer = toy_automaton(["Anna", "sah", "sie"], lang="de")
    matcher = matcher_of(automaton, 3)
    assert can_spell(matcher, tokenizer, "Sie sah Anna. Anna sah sie.")
    assert not can_spell(matcher, tokenizer, "Anna sah Sie.")


def test_words_the_tokenizer_cannot_spell_are_dropped_and_ranks_close_up() -> None:
    tokenizer = toy_tokenizer([" día"], lacking="ñ".encode()[1:])
    automaton = compile_automaton(word_list(["niño", "sol", "día", "mar"]), ListOptions(), tokenizer)
    assert automaton.dropped_words == ("niño",)
    assert automaton.word_list.words == ("sol", "día", "mar")
    assert can_spell(matcher_of(automaton, 1), tokenizer, "sol")
    assert not can_spell(matcher_of(automaton, 1), tokenizer, "día")


def test_a_word_spelled_by_a_longer_token_only_is_kept_and_no_dead_end_is_entered() -> None:
    # The second byte of ñ exists inside the token alone, so its first byte leads nowhere.
    tokenizer = toy_tokenizer(["ñ"], lacking="ñ".encode()[1:])
    automaton = compile_automaton(word_list(["niño"]), ListOptions(), tokenizer)
    assert automaton.dropped_words == ()
    matcher = matcher_of(automaton, 1)
    for token in (b"n", b"i"):
        assert matcher.accept_token(tokenizer.token_bytes.index(token))
    assert allowed_tokens(matcher, len(tokenizer)) == {tokenizer.token_bytes.index("ñ".encode())}


def test_a_list_of_which_nothing_can_be_spelled_is_refused() -> None:
    with pytest.raises(EmptyWordListError, match="cannot spell any word"):
        compile_automaton(word_list(["ñ"]), ListOptions(), toy_tokenizer([], lacking="ñ".encode()))


def test_a_list_with_too_many_readings_at_once_is_refused() -> None:
    words = [" ".join("a" * length) + f" {chr(98 + length % 20)}" * (length % 2) for length in range(1, 60)]
    with pytest.raises(CompileError, match="overlap"):
        compile_automaton(word_list(list(dict.fromkeys(words))), ListOptions(), toy_tokenizer([]))


def test_special_tokens_are_not_spelled_as_words() -> None:
    tokenizer = TokenizerFacts.from_token_bytes([b"<stop>", b"sol", b"s", b"o", b"l"], [0, 1])
    automaton = compile_automaton(word_list(["sol"]), ListOptions(), tokenizer)
    assert allowed_tokens(matcher_of(automaton, 1), 5) == {2}


def test_the_digest_names_list_options_and_tokenizer() -> None:
    base = artefact_digest(word_list(["a"]), ListOptions(), toy_tokenizer([]))
    assert base == artefact_digest(word_list(["a"]), ListOptions(), toy_tokenizer([]))
    others = {
        artefact_digest(word_list(["a", "b"]), ListOptions(), toy_tokenizer([])),
        artefact_digest(word_list(["a"], "de"), ListOptions(), toy_tokenizer([])),
        artefact_digest(word_list(["a"]), ListOptions(case="listed"), toy_tokenizer([])),
        artefact_digest(word_list(["a"]), ListOptions(), toy_tokenizer(["ab"])),
    }
    assert len(others | {base}) == 5


def test_n_beyond_the_list_means_all_of_it() -> None:
    automaton, tokenizer = toy_automaton(["a", "b"])
    assert can_spell(matcher_of(automaton, 10**9), tokenizer, "a b")
    assert automaton.fewest_tokens(10**9) == 1
