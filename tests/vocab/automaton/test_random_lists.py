"""Whole random lists, from the client's entries to the mask: what is listed can be written, and nothing else.

The automaton is judged by the slow recogniser, which reads text, and by xgrammar's own grammar of the same texts.
"""

import random
import unicodedata
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
import xgrammar
from hypothesis import HealthCheck, given, settings

from tests.random_lists import FORBIDDEN, RandomList, random_lists
from tests.recogniser import Recogniser
from tests.vocab.toys import STOP, tokens_of, toy_speller, toy_tokenizer
from vocab.automaton.tokenizer import TokenizerFacts, byte_speller
from vocab.errors import EmptyWordListError, InvalidWordListError
from vocab.lists.entries import clean_words
from vocab.lists.wordlists import WordList
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.states import ListStates
from vocab.matching.text_states import State
from vocab.options import ListOptions
from vocab.text.forms import follows_elision
from vocab.text.grammar import write_ebnf

NEIGHBOURS = 120
STATES = 300
STEPS = 25

SPELLER = byte_speller(STOP)
BYTES = SPELLER.facts
"""Every text has one spelling in bytes, so that texts are judged and not their tokens."""

random_list_test = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@dataclass(frozen=True)
class Compiled:
    """A random list's words, compiled."""

    source: RandomList
    word_list: WordList
    n_words: int
    facts: TokenizerFacts
    states: ListStates

    @property
    def options(self) -> ListOptions:
        return ListOptions(**self.source.choice)

    @cached_property
    def judge(self) -> Recogniser:
        words, ranks = self.word_list.words, self.word_list.ranks
        return Recogniser(words, self.n_words, self.source.lang, ranks=ranks, **self.source.choice)

    def reads(self, text: str) -> tuple[bool, bool]:
        return read_bytes(self.states, self.facts, text)

    def mask(self, state: State) -> set[int]:
        row = np.full((len(self.facts) + 31) // 32, -1, dtype=np.int32)
        self.states.fill(row, state, NO_BUDGET)
        return tokens_of(row)

    @property
    def listed(self) -> list[str]:
        return [word for rank, word in self.word_list.ranked() if rank <= self.n_words]


def read_bytes(states: ListStates, facts: TokenizerFacts, text: str) -> tuple[bool, bool]:
    """Feed a text byte by byte; whether it is the beginning of a text, and whether it is a text."""
    token_of_byte = {spelled[0]: token for token, spelled in enumerate(facts.token_bytes) if len(spelled) == 1}
    state = states.start
    for byte in text.encode():
        state = states.target(state, token_of_byte[byte], NO_BUDGET)
        if not state:
            return False, False
    return True, states.can_stop(state)


def accepted(entries: tuple[str, ...]) -> tuple[str, ...]:
    """The entries that a list may have, as it keeps them."""
    kept: list[str] = []
    for entry in entries:
        try:
            kept += clean_words([entry], "words")
        except InvalidWordListError:
            continue
    return tuple(dict.fromkeys(kept))


def compiled(source: RandomList, lacking: bytes = b"") -> Compiled | None:
    """None where no entry can be a word, or no text can be written in those of N, or not by tokens lacking bytes."""
    words = accepted(source.entries)
    if not words:
        return None
    word_list = WordList(source.lang, words, "inline", source.ranks(len(words)))
    n_words = max(1, word_list.num_ranks - source.num_beyond)
    facts = toy_tokenizer([], lacking=lacking) if lacking else BYTES
    try:
        speller = toy_speller(facts) if lacking else SPELLER
        states = ListStates.of(word_list, ListOptions(**source.choice), speller, n_words)
    except EmptyWordListError:
        return None
    has_texts = states.fewest_tokens() is not None
    world = Compiled(source, word_list, n_words, facts, states)
    assert lacking or has_texts == world.judge.is_prefix("")
    return world if has_texts else None


@pytest.mark.fault(27)
@given(random_lists())
@random_list_test
def test_an_entry_is_refused_or_kept_exactly(source: RandomList) -> None:
    for entry in source.entries:
        trimmed = " ".join(unicodedata.normalize("NFC", entry.strip()).split())
        forbidden = set(FORBIDDEN) & set(entry.strip())
        if accepted((entry,)):
            assert accepted((entry,)) == (trimmed,)
            assert not forbidden
        else:
            assert forbidden or not trimmed or "\u200d" in (trimmed[0], trimmed[-1]), ascii(entry)


@pytest.mark.fault(27)
@given(random_lists())
@random_list_test
def test_every_listed_word_can_be_written(source: RandomList) -> None:
    world = compiled(source)
    if world is None:
        return
    for word in world.listed:
        text = word
        if source.lang in ("fr", "it", "ca") and word[-1] in "'’":
            may_follow = [other for other in world.listed if follows_elision(other, source.lang)]
            followers = [other for other in may_follow if other[-1] not in "'’"]
            if not followers:
                continue
            text += followers[0]
        if source.choice["end"] == "sentence":
            text += "."
        assert world.reads(text) == (True, True), (word, text)


@pytest.mark.fault(27)
@given(random_lists())
@random_list_test
def test_what_is_one_edit_away_can_be_written_only_if_it_is_a_text(source: RandomList) -> None:
    world = compiled(source)
    if world is None:
        return
    draw = random.Random(source.seed)
    for word in world.word_list.words:
        near = [*source.neighbours(word)]
        for text in [word, *draw.sample(near, min(len(near), NEIGHBOURS))]:
            assert world.reads(text) == (world.judge.is_prefix(text), world.judge.is_text(text)), ascii(text)


@pytest.mark.fault(28)
@given(random_lists())
@random_list_test
def test_no_state_is_a_dead_end(source: RandomList) -> None:
    world = compiled(source)
    if world is not None:
        assert_no_dead_end(world)


@given(random_lists())
@random_list_test
def test_no_state_is_a_dead_end_where_the_tokenizer_lacks_bytes(source: RandomList) -> None:
    draw = random.Random(source.seed)
    # Bytes that the words have, and those of marks.
    spelled = sorted({*" ".join(accepted(source.entries)).encode(), *" .\n’".encode()})
    world = compiled(source, lacking=bytes(draw.sample(spelled, min(len(spelled), draw.randint(1, 4)))))
    if world is not None:
        assert_no_dead_end(world)


def assert_no_dead_end(world: Compiled) -> None:
    """From each state, up to a bound, some token comes or the text may stop; masks and steps say the same."""
    states = world.states
    todo, met = [states.start], {states.start}
    while todo and len(met) < STATES:
        state = todo.pop()
        mask = world.mask(state)
        assert mask or states.can_stop(state), state
        for token in mask:
            target = states.target(state, token, NO_BUDGET)
            assert target
            if target not in met:
                met.add(target)
                todo.append(target)
        lacking = [token for token in range(len(world.facts)) if token not in mask]
        assert all(not states.target(state, token, NO_BUDGET) for token in lacking)


@given(random_lists())
@random_list_test
def test_tokens_are_those_of_xgrammars_grammar(source: RandomList) -> None:
    world = compiled(source)
    if world is None:
        return
    info = xgrammar.TokenizerInfo(
        list(world.facts.token_bytes), vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[STOP]
    )
    ebnf = write_ebnf(world.word_list, world.options, world.n_words)
    grammar = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(ebnf)
    draw = random.Random(source.seed)
    theirs = xgrammar.allocate_token_bitmask(1, len(world.facts))
    for _ in range(3):
        state, oracle = world.states.start, xgrammar.GrammarMatcher(grammar, max_rollback_tokens=1)
        for _ in range(STEPS):
            ours = world.mask(state)
            assert oracle.is_completed() == world.states.can_stop(state)
            oracle.fill_next_token_bitmask(theirs)
            # xgrammar 0.2.8 leaves some tokens out of its mask that it accepts all the same.
            for token in ours ^ (tokens_of(theirs.numpy()[0]) - {STOP}):
                assert _accepts(oracle, token) == (token in ours), world.facts.token_bytes[token]
            if not ours:
                break
            token = draw.choice(sorted(ours))
            state = world.states.target(state, token, NO_BUDGET)
            assert oracle.accept_token(token)


def _accepts(oracle: xgrammar.GrammarMatcher, token: int) -> bool:
    accepted = bool(oracle.accept_token(token))
    if accepted:
        oracle.rollback(1)
    return accepted
