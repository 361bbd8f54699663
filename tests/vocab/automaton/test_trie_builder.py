import pytest

from tests.vocab.toys import can_spell, states_of, toy_speller, toy_states, toy_tokenizer, toy_words, word_list
from vocab.automaton import trie_builder
from vocab.automaton.compiled_list import POSSESSIVE
from vocab.automaton.tokenizer import TokenizerFacts, byte_speller
from vocab.automaton.trie_builder import build_words, words_digest
from vocab.errors import EmptyWordListError, ListTooLargeError
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions

LISTED = ["a", "ab", "abc", "b", "ba"]


@pytest.mark.parametrize(
    ("words", "pieces", "n_words", "allowed", "refused"),
    [
        # A rare word that begins a frequent one.
        (["casas", "sol", "casa"], ["casa", "cas", "as", " casa"], 2, ["casas"], ["casa"]),
        (["casas", "sol", "casa"], ["casa", "cas", "as", " casa"], 3, ["casa"], []),
        *((LISTED, ["ab", " a"], n, LISTED[:n], LISTED[n:]) for n in range(1, 6)),
        # A phrase needs its own rank or those of its words.
        (["in", "front of", "front", "of"], [" front", " of"], 2, ["in front of"], ["front", "of"]),
        (["in", "front of", "front", "of"], [" front", " of"], 3, ["front"], ["of"]),
        (["in", "front of", "front", "of"], [" front", " of"], 4, ["of front"], []),
        # A capital where a sentence starts.
        (["Anna", "sah", "sie"], [], 3, ["Sie sah Anna. Anna sah sie."], ["Anna sah Sie."]),
        # A mark that is drawn into a word.
        (["dog", "do", "cat"], ["(do", " do"], 3, ["(dog", "(do", "(cat", "dog (dog"], ["(cad"]),
    ],
)
def test_a_trie_serves_every_n(
    words: list[str], pieces: list[str], n_words: int, allowed: list[str], refused: list[str]
) -> None:
    states, facts = toy_states(words, pieces, n_words=n_words, lang="de")
    assert [text for text in (*allowed, *refused) if can_spell(states, facts, text)] == allowed


@pytest.mark.fault(28)
def test_words_the_tokenizer_cannot_spell_are_dropped_and_ranks_close_up() -> None:
    facts = toy_tokenizer([" día"], lacking="ñ".encode()[1:])
    words = build_words(word_list(["niño", "sol", "día", "mar"]), toy_speller(facts))
    assert words.dropped_words == ("niño",)
    assert words.listed.word_list.words == ("sol", "día", "mar")
    assert can_spell(states_of(words, facts, 1), facts, "sol")
    assert not can_spell(states_of(words, facts, 1), facts, "día")
    with pytest.raises(EmptyWordListError, match="cannot spell any word"):
        build_words(word_list(["ñ"]), toy_speller(facts))


def test_special_tokens_are_not_spelled_as_words() -> None:
    facts = TokenizerFacts.from_token_bytes([b"<stop>", b"sol", b"s", b"o", b"l"], [0, 1])
    states = states_of(build_words(word_list(["sol"]), toy_speller(facts)), facts, 1)
    assert not states.target(states.start, 1, -1)
    assert states.target(states.start, 2, -1)


def test_roots_are_of_the_marks_at_the_edges_of_entries_and_of_those_that_are_drawn_in() -> None:
    words = toy_words(["Mr.", '"ouf"', "goin'", "rock 'n' roll", "…"], lang="en")
    groups = {(root.head, root.tail) for root in words.roots if root != POSSESSIVE}
    assert groups == {("", "."), ('"', '"'), ("", "'"), ("", "’"), ("", "")}
    words = toy_words(["dog", "do", "cat"], ["(do", " do"])
    [lead] = [root for root in words.roots if root.lead == "("]
    after = words.tokens[words.edge_start[words.roots[lead]] : words.edge_start[words.roots[lead] + 1]]
    assert after.tolist() == [257]


@pytest.mark.fault(29)
def test_a_beginning_that_all_words_share_is_kept_once() -> None:
    listed = [word for word in load_word_list("es", None).words[:2000] if word.isalpha()]
    plain, prefixed = (build_words(word_list([lead + w for w in listed]), byte_speller()) for lead in ("", "z" * 900))
    assert prefixed.num_nodes < plain.num_nodes + 5_000 < 70_000
    assert len(plain.tokens) == plain.num_nodes - len(plain.roots)


@pytest.mark.fault(29)
def test_a_list_with_too_many_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_builder, "MAX_NODES", 5_000)
    assert build_words(load_word_list("es", None).up_to(100), byte_speller())
    with pytest.raises(ListTooLargeError, match="more than 5000 nodes"):
        build_words(load_word_list("es", None).up_to(1000), byte_speller())


def test_a_word_that_cannot_be_spelled_leaves_nothing_of_itself() -> None:
    speller = toy_speller(toy_tokenizer([" sol"], lacking="ñ".encode()[1:]))
    words = build_words(WordList("en", ("sol", "niño", "Mar", "mar", "l'a"), "inline"), speller)
    assert words.dropped_words == ("niño",)
    without = build_words(WordList("en", ("sol", "Mar", "mar", "l'a"), "inline"), speller, has_capitals=True)
    assert (without.roots, without.ranks.tolist()) == (words.roots, words.ranks.tolist())


def test_a_list_with_too_many_runs_of_marks_is_refused() -> None:
    words = tuple("a" + mark for mark in map(chr, range(0x2190, 0x2400)))
    with pytest.raises(ListTooLargeError, match="runs of marks"):
        build_words(WordList("und", words, "inline"), byte_speller())
    assert build_words(WordList("und", words[:100], "inline"), byte_speller())


def test_a_list_that_takes_too_much_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 letters, a token each: 32 alone, and with four blanks 40 more."""
    listed = WordList("und", tuple(letter * 4 for letter in "ABCD"), "inline")
    for max_work in (31, 63, 71):
        monkeypatch.setattr(trie_builder, "MAX_OWN_WORK", max_work)
        with pytest.raises(ListTooLargeError, match=f"more than {max_work} characters and tokens"):
            build_words(listed, byte_speller())
    monkeypatch.setattr(trie_builder, "MAX_OWN_WORK", 72)
    assert build_words(listed, byte_speller())


def test_a_list_is_compiled_alike_each_time_and_its_digest_names_what_it_is_made_of() -> None:
    plain, longer = toy_speller(toy_tokenizer([])), toy_speller(toy_tokenizer(["ab"]))
    digests = [
        words_digest(word_list(words, lang), speller, has_capitals=has_capitals)
        for words, lang, speller, has_capitals in (
            (["a"], "es", plain, False),
            (["a", "b"], "es", plain, False),
            (["a"], "de", plain, False),
            (["a"], "es", longer, False),
            (["a"], "es", plain, True),
        )
    ]
    assert len(set(digests)) == len(digests)
    assert words_digest(word_list(["a"]), plain, has_capitals=False) == digests[0]
    listed = WordList("fr", (*load_word_list("fr", None).words[:500], "l'un", "pomme de terre"), "file")
    first, second = (build_words(listed, byte_speller()) for _ in range(2))
    assert (first.roots, first.tokens.tobytes()) == (second.roots, second.tokens.tobytes())
    assert first.ranks.tobytes() == second.ranks.tobytes()


def test_the_beginning_of_a_list_with_capitals_is_one_with_capitals() -> None:
    facts, listed = toy_tokenizer([]), WordList("en", ("the", "cat", "London"), "file")
    words = build_words(listed.up_to(2), toy_speller(facts), has_capitals=listed.has_capitals)
    assert not can_spell(states_of(words, facts), facts, "the Cat")
    assert can_spell(states_of(words, facts, options=ListOptions(case="any")), facts, "the Cat")
