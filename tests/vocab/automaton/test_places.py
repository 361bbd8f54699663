"""Where states lie between words, against the readings that the text itself has."""

from tests.vocab.toys import matcher_of, toy_automaton
from vocab.automaton.automaton import TokenAutomaton
from vocab.options import ListOptions
from vocab.text.gaps import build_gap_automaton

GAPS = build_gap_automaton(ListOptions(case="listed"), "en")


def places_after(words: list[str], text: str, lang: str = "en") -> dict[int, int]:
    """Place to rank for the state behind ``text``, as whoever meets there finds them."""
    automaton, tokenizer = toy_automaton(words, lang=lang, options=ListOptions(case="listed"))
    matcher = matcher_of(automaton, len(words))
    for byte in text.encode():
        assert matcher.accept_token(tokenizer.token_bytes.index(bytes([byte])))
    return places_of(automaton, matcher.state)


def places_of(automaton: TokenAutomaton, state: int) -> dict[int, int]:
    gap_states = automaton.gap_states.tolist()
    if state in automaton.crowded_states:
        at = automaton.crowded_states.tolist().index(state)
        own = slice(automaton.place_start[at], automaton.place_start[at + 1])
        return dict(zip(automaton.places[own].tolist(), automaton.place_ranks[own].tolist(), strict=True))
    if state in gap_states:
        return {gap_states.index(state): 0}
    link = int(automaton.edges.links[state])
    return {gap_states.index(link): int(automaton.edges.link_ranks[state])} if link in gap_states else {}


def after(text: str) -> int:
    state = GAPS.after_word
    for character in text:
        state = GAPS.states[state].transitions[character]
    return state


def test_the_empty_text_is_at_the_start() -> None:
    assert places_after(["in"], "") == {GAPS.start: 0}


def test_the_end_of_a_word_is_the_place_after_it_from_its_rank_on() -> None:
    assert places_after(["of", "in"], "in") == {GAPS.after_possessable: 2}
    assert places_after(["of", "it's"], "it's") == {GAPS.after_word: 2}
    assert places_after(["of", "it's"], "it's. ") == {after(". "): 0}
    assert places_after(["of", "it's"], "it's. o") == {}


def test_the_blank_inside_a_phrase_is_also_the_place_behind_its_first_word() -> None:
    # The phrase pays for "in front", so that only its end is owed.
    assert places_after(["in front of", "in", "front"], "in ") == {after(" "): 2}
    assert places_after(["in front of", "in", "front"], "in front") == {GAPS.after_possessable: 3}
    assert places_after(["in front of", "in", "front"], "in front of") == {GAPS.after_possessable: 1}


def test_a_word_that_is_two_words_of_better_ranks_is_at_one_place_from_the_better_rank_on() -> None:
    assert places_after(["a", "b", "a b"], "a b") == {GAPS.after_possessable: 2}


def test_the_places_of_all_automata_with_the_same_options_are_the_same() -> None:
    first, _ = toy_automaton(["a", "a b"])
    second, _ = toy_automaton(["Xx", "y."])
    assert len(first.gap_states) == len(second.gap_states) == len(build_gap_automaton(ListOptions(), "es").states)
