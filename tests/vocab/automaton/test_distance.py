from tests.vocab.toys import matcher_of, toy_automaton
from vocab.text.text_automaton import NEVER


def test_the_start_needs_as_many_tokens_as_the_shortest_word_of_the_first_n() -> None:
    automaton, _ = toy_automaton(["abcd", "xyz", "q"], ["abc", "yz"])
    assert automaton.fewest_tokens(1) == 2
    assert automaton.fewest_tokens(2) == 2
    assert automaton.fewest_tokens(3) == 1


def test_rarer_words_bring_the_end_nearer() -> None:
    automaton, tokenizer = toy_automaton(["abcdef", "ab"])
    matcher = matcher_of(automaton, 2)
    assert matcher.accept_token(tokenizer.token_bytes.index(b"a"))
    assert automaton.rank_within(matcher.state, 0) == NEVER
    assert automaton.rank_within(matcher.state, 1) == 2
    assert automaton.rank_within(matcher.state, 4) == 2
    assert automaton.rank_within(matcher.state, 5) == 1
    assert automaton.longest_distance >= 5
