"""Random lists with a word added and a word left out, as a request may ask: judged by the slow recogniser.

Tokens are bytes: one that holds parts of a listed and an added word at once is not written (``vocab.matching.union``).
"""

import random
from dataclasses import replace

from hypothesis import HealthCheck, assume, event, given, settings

from tests.random_lists import RandomList, random_lists
from tests.recogniser import Recogniser
from tests.vocab.automaton.test_random_lists import accepted, random_list_test
from tests.vocab.toys import toy_tokenizer
from vocab.automaton.automaton import TokenAutomaton, compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.errors import OptionsError
from vocab.exclusion.exclusion import exclude
from vocab.lists.wordlists import WordList
from vocab.matching.masks import NO_BUDGET, MaskRows
from vocab.matching.states import ListStates, States
from vocab.matching.union import UnionStates
from vocab.options import ListOptions
from vocab.text.changes import ListChanges, entries_left_out
from vocab.text.forms import ELISION_LANGUAGES, resolve_case

NEIGHBOURS = 60
BYTES = toy_tokenizer([])
TRIE = TokenTrie.of(BYTES)


@given(random_lists())
@settings(random_list_test, suppress_health_check=list(HealthCheck))
def test_what_is_added_can_be_written_and_what_is_left_out_cannot(source: RandomList) -> None:
    words = accepted(source.entries)
    # The first word is added and the second left out of the others. Elisions join words of their own side only.
    changes = ListChanges(words[:1], words[1:2])
    assume(len(words) > 2 and source.lang not in ELISION_LANGUAGES and is_possible(changes, source.lang))
    listed = WordList(source.lang, words[1:], "inline", source.ranks(len(words) - 1))
    n_words = max(1, listed.num_ranks - source.num_beyond)
    judge = Recogniser(
        listed.words,
        n_words,
        source.lang,
        extra_words=changes.extra_words,
        exclude_words=changes.exclude_words,
        ranks=listed.ranks,
        **source.choice,
    )
    states = changed(listed, n_words, ListOptions(**source.choice), changes)
    if states is None:
        return
    draw = random.Random(source.seed)
    for word in words:
        near = [*source.neighbours(word)]
        for text in [word, word + ".", f"{word} {words[0]}.", *draw.sample(near, min(len(near), NEIGHBOURS))]:
            assert reads(states, text) == (judge.is_prefix(text), judge.is_text(text)), ascii(text)


def is_possible(changes: ListChanges, language: str) -> bool:
    try:
        changes.check(language)
    except OptionsError:
        return False
    return True


def changed(listed: WordList, n_words: int, options: ListOptions, changes: ListChanges) -> States | None:
    """The list with its changes; None where no word of it is left."""
    extra = WordList(listed.lang, changes.extra_words, "inline")
    entries = entries_left_out(listed, changes.exclude_words)
    if len(entries) == len(listed.words):
        return None
    automaton = compile_automaton(listed, options, BYTES)
    exclusion = exclude(automaton, entries, BYTES, TRIE)
    event("compiled anew" if exclusion is None else "left out of the compiled list")
    automaton = without(listed, entries, options) if exclusion is None else exclusion.apply(automaton)
    added = compile_automaton(extra, replace(options, case="sentence"), BYTES)
    return UnionStates(ListStates(automaton, MaskRows(automaton), n_words), ListStates(added, MaskRows(added), 1))


def without(listed: WordList, entries: tuple[str, ...], options: ListOptions) -> TokenAutomaton:
    kept = [(rank, word) for rank, word in listed.ranked() if word not in entries]
    shorter = replace(listed, words=tuple(word for _, word in kept), ranks=tuple(rank for rank, _ in kept))
    return compile_automaton(shorter, replace(options, case=resolve_case(listed, options)), BYTES)


def reads(states: States, text: str) -> tuple[bool, bool]:
    """Feeds a text byte by byte; (whether it is the beginning of a text, whether it is a text)."""
    state = states.start
    for byte in text.encode():
        # Token 0 is the stop token, and the bytes follow it.
        state = states.target(state, byte + 1, NO_BUDGET)
        if state < 0:
            return False, False
    return True, states.can_stop(state)
