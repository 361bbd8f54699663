"""Extra words beside a list: the two automata together against the recogniser and against xgrammar's grammar."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.changed_worlds import CHANGED_WORLDS
from tests.choices import Choice, choices
from tests.recogniser import recogniser
from tests.vocab.automaton.test_oracle import loaded, trie_of
from tests.vocab.toys import STOP, allowed_tokens, can_spell, tokens_of, toy_tokenizer, word_list
from tests.worlds import WORLDS, World
from vocab.automaton.automaton import compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import TokenBudgetError
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.masks import NO_BUDGET, MaskRows
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.matching.union import UnionStates
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.ebnf import write_ebnf

PIECES = (
    " a", " b", "ab", ". A", "a.", " ", " — ", '"a', "b'", "’s", " B", "ba ", "é", "É", "ß", "’", "—", "Mart", "in",
    " (",
)  # fmt: skip


def union(
    listed: WordList,
    extra: Sequence[str],
    tokenizer: TokenizerFacts,
    n_words: int,
    options: ListOptions | None = None,
    trie: TokenTrie | None = None,
) -> UnionStates:
    options = options or ListOptions()
    extra_list = WordList(listed.lang, tuple(extra), "inline")
    sides = [
        (compile_automaton(listed, options, tokenizer, trie), n_words),
        (compile_automaton(extra_list, replace(options, case="sentence"), tokenizer, trie), len(extra)),
    ]
    return UnionStates(*(ListStates(automaton, MaskRows(automaton), n) for automaton, n in sides))


def holds_parts_of_one_word(token: str) -> bool:
    """Whether all words in a token are one: what stands in it before a gap, or behind one, is of no second word."""
    return re.fullmatch(r"[^\w'’-]*[\w'’-]*[^\w'’-]*", token) is not None


WORDS = st.lists(
    st.one_of(
        st.text("abé'-", min_size=1, max_size=4).filter(lambda word: not word.endswith("'")),
        st.sampled_from(["a b", "a b c", "b c", "A", "Ab", "aB", "ß", "in", "in a", "Mart", "Martin", "Mart in"]),
    ),
    min_size=1,
    max_size=5,
    unique=True,
)


@settings(max_examples=settings().max_examples * 3 // 2)
@given(
    listed=WORDS,
    extra=WORDS,
    lang=st.sampled_from(["en", "es", "tr"]),
    choice=choices(),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_allows_a_token_exactly_where_the_recogniser_reads_the_beginning_of_a_text(
    listed: list[str], extra: list[str], lang: str, choice: Choice, seed: int, data: st.DataObject
) -> None:
    tokenizer = toy_tokenizer(PIECES)
    n_words = data.draw(st.integers(1, len(listed)))
    states = union(word_list(listed, lang), extra, tokenizer, n_words, ListOptions(**choice))
    judge = recogniser(tuple(listed), n_words, lang, extra_words=tuple(extra), **choice)
    pieces = {i: token.decode() for i, token in enumerate(tokenizer.token_bytes) if token and _is_text(token)}
    exact = {i for i, piece in pieces.items() if holds_parts_of_one_word(piece)}
    matcher, walk, text = Matcher(states, [STOP]), random.Random(seed), ""
    for _ in range(14):
        allowed = allowed_tokens(matcher, len(tokenizer))
        assert (STOP in allowed) == judge.is_text(text)
        expected = {i for i, piece in pieces.items() if judge.is_prefix(text + piece)}
        assert allowed & set(pieces) <= expected
        assert allowed & exact == expected & exact
        token = walk.choice(sorted(allowed & set(pieces)))
        assert matcher.accept_token(token)
        text += pieces[token]


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(
    listed=WORDS,
    extra=WORDS,
    lang=st.sampled_from(["en", "es", "fr"]),
    choice=choices(),
    max_tokens=st.integers(1, 12),
    seed=st.integers(0, 2**16),
)
def test_every_walk_within_a_budget_ends_in_a_whole_text(
    listed: list[str], extra: list[str], lang: str, choice: Choice, max_tokens: int, seed: int
) -> None:
    tokenizer = toy_tokenizer(PIECES)
    states = union(word_list(listed, lang), extra, tokenizer, 1, ListOptions(**choice))
    fewest = states.fewest_tokens()
    assert fewest is not None
    if fewest > max_tokens:
        with pytest.raises(TokenBudgetError):
            Matcher(states, [STOP], max_tokens)
        return
    judge = recogniser(tuple(listed), 1, lang, extra_words=tuple(extra), **choice)
    matcher, walk, text = Matcher(states, [STOP], max_tokens), random.Random(seed), b""
    for _ in range(max_tokens):
        allowed = allowed_tokens(matcher, len(tokenizer))
        assert allowed
        token = walk.choice(sorted(allowed))
        assert matcher.accept_token(token)
        if matcher.is_terminated:
            break
        text += tokenizer.token_bytes[token]
    assert judge.is_text(text.decode())


@pytest.mark.parametrize("end", ["word", "sentence"])
@pytest.mark.parametrize("world", [world for world in (*WORLDS, *CHANGED_WORLDS) if not world.exclude_words], ids=str)
def test_agrees_on_hand_picked_texts(world: World, end: str) -> None:
    extra = world.extra_words or ("Ana", "New York", "O'Neil", *world.words[-1:])
    tokenizer = toy_tokenizer([])
    options = ListOptions(end=end)  # type: ignore[arg-type]
    listed = WordList(world.lang, world.words, "file", world.ranks)
    states = union(listed, extra, tokenizer, world.n_words, options)
    judge = recogniser(world.words, world.n_words, world.lang, extra_words=extra, ranks=world.ranks, end=end)
    texts = [*world.texts, "Ana", "ana", f"{world.words[0]} Ana", f"Ana {world.words[0]}.", "New York—Ana", "New Ana."]
    for text in texts:
        assert can_spell(Matcher(states, [STOP]), tokenizer, text) == judge.is_text(text), text


def test_extra_words_that_begin_go_on_or_repeat_listed_words() -> None:
    tokenizer = toy_tokenizer(PIECES)
    states = union(word_list(["Martin", "sol", "mar", "luna"]), ["Mart", "Martine", "luna"], tokenizer, 2)
    matcher = Matcher(states, [STOP])
    for text in ("Mart", "Martin", "Martine", "luna", "sol Mart", "Martine. Sol", "Martin luna Mart sol"):
        assert can_spell(matcher, tokenizer, text), text
    for text in ("mar", "Marti", "mart", "Luna. mar", "solMart", "Martsol"):
        assert not can_spell(matcher, tokenizer, text), text


def test_an_extra_word_follows_an_elision_of_the_list_and_an_extra_elision_a_listed_word() -> None:
    tokenizer = toy_tokenizer([])
    matcher = Matcher(union(word_list(["d'", "un"], "fr"), ["Ana", "qu’"], tokenizer, 2), [STOP])
    for text in ("d'Ana", "D’Ana", "qu'un", "qu’Ana", "d'un", "d'qu'Ana"):
        assert can_spell(matcher, tokenizer, text), text
    for text in ("d'", "d' Ana", "Ana'un", "d'ana", "Anad'un"):
        assert not can_spell(matcher, tokenizer, text), text


def test_a_phrase_may_share_words_with_the_other_side() -> None:
    tokenizer = toy_tokenizer([" of", "in"])
    matcher = Matcher(union(word_list(["in front of", "front"], "en"), ["in", "of"], tokenizer, 2), [STOP])
    for text in ("in front of", "in front", "in in front of of", "in front of's", "of's front"):
        assert can_spell(matcher, tokenizer, text), text
    assert not can_spell(matcher, tokenizer, "in fron of")


def test_states_mean_the_same_for_every_matcher_and_come_back_after_a_rollback() -> None:
    tokenizer = toy_tokenizer([])
    states = union(word_list(["sol"]), ["Sol", "Ana"], tokenizer, 1)
    matcher, other = Matcher(states, [STOP]), Matcher(states, [STOP])
    ids = {token: i for i, token in enumerate(tokenizer.token_bytes)}
    seen = [matcher.state]
    for byte in b"Ana sol":
        assert matcher.accept_token(ids[bytes([byte])])
        seen.append(matcher.state)
    matcher.rollback(4)
    assert matcher.state == seen[3]
    for byte in b"Ana":
        assert other.accept_token(ids[bytes([byte])])
    assert other.state == matcher.state
    assert states.target(other.state, ids[b"x"], NO_BUDGET) == -1


def test_sides_of_other_options_or_tokenizers_are_refused() -> None:
    def side(options: ListOptions, pieces: Sequence[str] = ()) -> ListStates:
        automaton = compile_automaton(word_list(["sol"]), options, toy_tokenizer(pieces))
        return ListStates(automaton, MaskRows(automaton), 1)

    with pytest.raises(ValueError, match="other options"):
        UnionStates(side(ListOptions()), side(ListOptions(punctuation="none")))
    with pytest.raises(ValueError, match="another tokenizer"):
        UnionStates(side(ListOptions()), side(ListOptions(), ["so"]))


ORACLE_LISTS = (
    pytest.param("es", 300, 200, ("Ana", "Martín", "el Escorial", "casas", "de", "iPhone"), id="es"),
    pytest.param("en", 300, 300, ("Ana", "New York", "O'Neil", "x-ray", "then", "the"), id="en"),
)


@pytest.mark.parametrize(("lang", "num_words", "n_words", "extra"), ORACLE_LISTS)
@pytest.mark.parametrize("tokenizer_fixture", ["smollm2_path", "gemma_tokenizer_path"])
def test_masks_equal_those_of_xgrammar_in_every_state_reached(
    tokenizer_fixture: str,
    lang: str,
    num_words: int,
    n_words: int,
    extra: tuple[str, ...],
    request: pytest.FixtureRequest,
) -> None:
    path: Path = request.getfixturevalue(tokenizer_fixture)
    facts, info = loaded(path)
    listed = load_word_list(lang, None).up_to(num_words)
    states = union(listed, extra, facts, n_words, trie=trie_of(path))
    ebnf = write_ebnf(listed, ListOptions(), n_words, ListChanges(extra_words=extra))
    grammar = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(ebnf)
    ours = np.empty((len(facts) + 31) // 32, dtype=np.int32)
    theirs = xgrammar.allocate_token_bitmask(1, len(facts))
    walk = random.Random(3)
    for _ in range(30):
        matcher, oracle = Matcher(states, info.stop_token_ids), xgrammar.GrammarMatcher(grammar)
        for _ in range(25):
            matcher.fill_bitmask(ours)
            oracle.fill_next_token_bitmask(theirs)
            np.testing.assert_array_equal(ours, theirs.numpy()[0])
            token = _towards_extra_words(sorted(tokens_of(ours)), facts, extra, walk)
            assert matcher.accept_token(token)
            assert oracle.accept_token(token)
            if matcher.is_terminated:
                break


def _towards_extra_words(allowed: list[int], facts: TokenizerFacts, extra: tuple[str, ...], walk: random.Random) -> int:
    """Half of the time a token with letters of an extra word: the list's are so many more."""
    likely = [
        token
        for token in walk.sample(allowed, min(len(allowed), 400))
        if (spelled := facts.token_bytes[token].strip()) and any(spelled in word.encode() for word in extra)
    ]
    return walk.choice(likely if likely and walk.random() < 0.5 else allowed)
