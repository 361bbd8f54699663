from collections.abc import Sequence

import pytest

from tests.vocab.toys import can_spell, states_of, toy_speller, toy_states, toy_tokenizer, toy_words, word_list
from vocab.automaton import trie_builder
from vocab.automaton.compiled_list import NEVER, POSSESSIVE, Root
from vocab.automaton.tokenizer import Speller, TokenizerFacts, byte_speller
from vocab.automaton.trie_builder import build_words, words_digest
from vocab.errors import EmptyWordListError, ListTooLargeError
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions


def test_a_rare_word_that_begins_a_frequent_one_is_not_allowed() -> None:
    words, facts = toy_words(["casas", "sol", "casa"], ["casa", "cas", "as", " casa"]), toy_tokenizer([])
    facts = toy_tokenizer(["casa", "cas", "as", " casa"])
    assert can_spell(states_of(words, facts, 3), facts, "casa")
    assert not can_spell(states_of(words, facts, 2), facts, "casa")
    assert can_spell(states_of(words, facts, 2), facts, "casas")


def test_one_trie_serves_every_n() -> None:
    listed = ["a", "ab", "abc", "b", "ba"]
    words, facts = toy_words(listed, ["ab", " a"]), toy_tokenizer(["ab", " a"])
    for n_words in range(1, 6):
        states = states_of(words, facts, n_words)
        assert [word for word in listed if can_spell(states, facts, word)] == listed[:n_words]


def test_a_phrase_needs_its_own_rank_or_those_of_its_words() -> None:
    words, facts = toy_words(["in", "front of", "front", "of"], [" front", " of"]), toy_tokenizer([" front", " of"])
    assert can_spell(states_of(words, facts, 2), facts, "in front of")
    assert not can_spell(states_of(words, facts, 2), facts, "front")
    assert not can_spell(states_of(words, facts, 3), facts, "of")
    assert can_spell(states_of(words, facts, 4), facts, "of front")


def test_a_capital_for_sentence_starts_only_is_kept_out_of_sentences() -> None:
    states, facts = toy_states(["Anna", "sah", "sie"], lang="de")
    assert can_spell(states, facts, "Sie sah Anna. Anna sah sie.")
    assert not can_spell(states, facts, "Anna sah Sie.")


def test_words_the_tokenizer_cannot_spell_are_dropped_and_ranks_close_up() -> None:
    facts = toy_tokenizer([" día"], lacking="ñ".encode()[1:])
    words = build_words(word_list(["niño", "sol", "día", "mar"]), toy_speller(facts))
    assert words.dropped_words == ("niño",)
    assert words.listed.word_list.words == ("sol", "día", "mar")
    assert can_spell(states_of(words, facts, 1), facts, "sol")
    assert not can_spell(states_of(words, facts, 1), facts, "día")


def test_a_list_of_which_nothing_can_be_spelled_is_refused() -> None:
    with pytest.raises(EmptyWordListError, match="cannot spell any word"):
        build_words(word_list(["ñ"]), toy_speller(toy_tokenizer([], lacking="ñ".encode())))


def test_special_tokens_are_not_spelled_as_words() -> None:
    facts = TokenizerFacts.from_token_bytes([b"<stop>", b"sol", b"s", b"o", b"l"], [0, 1])
    states = states_of(build_words(word_list(["sol"]), toy_speller(facts)), facts, 1)
    assert not states.target(states.start, 1, -1)
    assert states.target(states.start, 2, -1)


def test_marks_at_the_edges_of_an_entry_are_left_to_the_frame() -> None:
    words = toy_words(["Mr.", '"ouf"', "goin'", "rock 'n' roll", "…"], lang="en")
    groups = {(root.head, root.tail) for root in words.roots if root != POSSESSIVE}
    assert groups == {("", "."), ('"', '"'), ("", "'"), ("", "’"), ("", "")}


def test_a_mark_that_is_drawn_into_a_word_has_a_root_with_those_words_alone() -> None:
    words = toy_words(["dog", "do", "cat"], ["(do", " do"])
    [lead] = [root for root in words.roots if root.lead == "("]
    after = words.tokens[words.edge_start[words.roots[lead]] : words.edge_start[words.roots[lead] + 1]]
    assert after.tolist() == [257]
    facts = toy_tokenizer(["(do", " do"])
    for text in ("(dog", "(do", "(cat", "dog (dog"):
        assert can_spell(states_of(words, facts), facts, text)


def test_a_beginning_that_all_words_share_is_kept_once() -> None:
    listed = load_word_list("es", None).words[:2000]
    plain, prefixed = (build_words(word_list([lead + w for w in listed]), byte_speller()) for lead in ("", "z" * 900))
    assert prefixed.num_nodes < plain.num_nodes + 5_000


def test_nodes_and_edges_grow_with_the_words_and_no_faster() -> None:
    for num_words in (10, 3000):
        words = build_words(load_word_list("es", None).up_to(num_words), byte_speller())
        assert words.num_nodes < 100 + 30 * num_words
        assert len(words.tokens) == words.num_nodes - len(words.roots)


def test_ranks_below_are_the_smallest_there() -> None:
    words = toy_words(["ab", "a", "abc"])
    node = words.roots[Root()]
    assert words.ranks_below[:, node].tolist() == [1, 1]
    assert words.ranks[:, node].tolist() == [NEVER, NEVER]


def test_a_list_with_too_many_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_builder, "MAX_NODES", 5_000)
    assert build_words(load_word_list("es", None).up_to(100), byte_speller())
    with pytest.raises(ListTooLargeError, match="more than 5000 nodes"):
        build_words(load_word_list("es", None).up_to(1000), byte_speller())


def asked_of(speller: Speller, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the speller is asked for from now on, once its own questions are answered."""
    asked: list[str] = []
    spell = speller.spell
    _ = speller.leads, speller.lone_tokens, speller.possessives

    def spell_and_note(texts: Sequence[str]) -> list[list[int] | None]:
        asked.extend(texts)
        return spell(texts)

    monkeypatch.setattr(speller, "spell", spell_and_note)
    return asked


def test_a_word_that_cannot_be_spelled_does_not_have_the_others_spelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    speller = toy_speller(toy_tokenizer([" sol"], lacking="ñ".encode()[1:]))
    asked = asked_of(speller, monkeypatch)
    words = build_words(WordList("en", ("sol", "niño", "Mar", "mar", "l'a"), "inline"), speller)
    assert words.dropped_words == ("niño",)
    assert len(asked) == len(set(asked))
    [kept] = {tuple(words.ranks[:, words.roots[root]]) for root in words.roots if root != POSSESSIVE}
    assert kept == (NEVER, NEVER)
    without = build_words(WordList("en", ("sol", "Mar", "mar", "l'a"), "inline"), speller, has_capitals=True)
    assert (without.roots, without.ranks.tolist()) == (words.roots, words.ranks.tolist())


def test_a_list_with_too_many_runs_of_marks_is_refused_before_it_is_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = "".join(mark for mark in map(chr, range(0x2190, 0x2400)))
    speller = byte_speller()
    asked = asked_of(speller, monkeypatch)
    with pytest.raises(ListTooLargeError, match="runs of marks"):
        build_words(WordList("und", tuple("a" + mark for mark in marks), "inline"), speller)
    assert not asked
    assert build_words(WordList("und", tuple("a" + mark for mark in marks[:100]), "inline"), speller)


@pytest.mark.parametrize(("max_work", "num_asked"), [(31, 0), (63, 4), (71, 8), (72, 8)])
def test_a_list_that_takes_too_much_work_is_refused_as_soon_as_that_is_known(
    monkeypatch: pytest.MonkeyPatch, max_work: int, num_asked: int
) -> None:
    """Of 16 letters, a token each: 32 alone, and with four blanks 40 more."""
    monkeypatch.setattr(trie_builder, "MAX_OWN_WORK", max_work)
    speller = byte_speller()
    asked = asked_of(speller, monkeypatch)
    listed = WordList("und", tuple(letter * 4 for letter in "ABCD"), "inline")
    if max_work == 72:
        assert build_words(listed, speller)
    else:
        with pytest.raises(ListTooLargeError, match=f"more than {max_work} characters and tokens"):
            build_words(listed, speller)
    assert len(asked) == num_asked


def test_the_digest_names_list_tokenizer_and_what_case_auto_is() -> None:
    plain, longer = toy_speller(toy_tokenizer([])), toy_speller(toy_tokenizer(["ab"]))

    def digest(words: list[str], lang: str = "es", *, has_capitals: bool = False) -> str:
        return words_digest(word_list(words, lang), plain, has_capitals=has_capitals)

    others = {
        digest(["a", "b"]),
        digest(["a"], "de"),
        digest(["a"], has_capitals=True),
        words_digest(word_list(["a"]), longer, has_capitals=False),
    }
    assert digest(["a"]) == digest(["a"])
    assert len(others | {digest(["a"])}) == 5


def test_the_beginning_of_a_list_with_capitals_is_one_with_capitals() -> None:
    facts, listed = toy_tokenizer([]), WordList("en", ("the", "cat", "London"), "file")
    words = build_words(listed.up_to(2), toy_speller(facts), has_capitals=listed.has_capitals)
    assert not can_spell(states_of(words, facts), facts, "the Cat")
    assert can_spell(states_of(words, facts, options=ListOptions(case="any")), facts, "the Cat")


def test_the_same_list_gives_the_same_trie() -> None:
    listed = WordList("fr", (*load_word_list("fr", None).words[:500], "l'un", "pomme de terre"), "file")
    first, second = (build_words(listed, byte_speller()) for _ in range(2))
    assert first.roots == second.roots
    assert first.tokens.tobytes() == second.tokens.tobytes()
    assert first.ranks.tobytes() == second.ranks.tobytes()
