"""The nearest words are of the same lemma, or are spelled almost so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.lists.wordlists import WordList
from vocab.text.nearest import MAX_CHARS, NearestWords, Spellings
from vocab.text.report import ListedWord, Note

ENGLISH = ("the", "go", "I", "cat", "went", "house", "Anna", "children", "elephant")


def note(word: str, *words: str, rank: int | None = None, lang: str = "en", n_words: int = 9) -> Note:
    return NearestWords(WordList(lang, words or ENGLISH, "file"), n_words).note(word, rank)


def names(found: Note) -> list[str]:
    return [listed.word for listed in found.nearest]


def distance(one: str, other: str) -> int:
    """Optimal string alignment, as it is defined."""
    rows = [[i + j if i * j == 0 else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(
    words=st.lists(st.text("abcdé𝒳", min_size=1, max_size=8), min_size=1, unique=True),
    word=st.text("abcdéz", min_size=1, max_size=8),
)
def test_all_words_of_a_similar_spelling_are_found(words: list[str], word: str) -> None:
    most = (0, 1, 1, 1, 2)[min(len(word), 5) - 1]
    near = {other: found for other in words if (found := distance(word, other)) <= most}
    order = sorted(near, key=lambda other: (near[other], other[0] != word[0], words.index(other)))
    assert [words[index] for index in Spellings(words).nearest(word, len(words))] == order


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("teh", ["the"]),
        ("Hause", ["house"]),
        ("goes", ["go", "went"]),
        ("ANNE", ["Anna"]),
        ("child", ["children"]),
        ("child’s", ["children"]),
        ("’s", []),
        ("xyzzy", []),
        ("𝒳", []),
        ("i", ["I"]),
    ],
)
def test_words_of_the_same_lemma_come_before_those_of_a_similar_spelling(word: str, expected: list[str]) -> None:
    assert names(note(word)) == expected


def test_a_word_has_the_lemma_of_its_entry() -> None:
    assert note("hund", "Hund", "Hunde", rank=1, lang="de") == Note(
        "Hund", (ListedWord("Hund", 1), ListedWord("Hunde", 2))
    )


def test_only_words_that_are_allowed_are_told() -> None:
    words = WordList("en", ENGLISH, "file")
    nearest = NearestWords(words, 8, {1, 5}, ("teh", "Elephantine"))
    assert nearest.note("te", None).nearest == (ListedWord("teh", None),)
    assert names(nearest.note("elephants", None)) == []
    assert names(nearest.note("going", None)) == ["go"]


def test_at_most_three_are_told_and_the_lemma_itself_comes_first() -> None:
    found = note("be", "is", "was", "been", "be", "bee")
    assert names(found) == ["be", "is", "was"]


def test_words_that_share_a_rank_have_it() -> None:
    words = WordList("en", ("be", "is", "house"), "file", (1, 1, 2))
    assert NearestWords(words, 1).note("houses", 2) == Note("house")
    assert NearestWords(words, 2).note("are", None).nearest == (ListedWord("be", 1), ListedWord("is", 1))


def test_a_language_without_lemmas_has_spellings() -> None:
    assert note("hows", "house", "how", lang="und") == Note(None, (ListedWord("how", 2),))


def test_a_very_long_word_is_like_none() -> None:
    long = "a" * MAX_CHARS
    assert names(note(long[1:], long, long + "a", lang="und")) == [long]
    assert names(note(long + "a", long, lang="und")) == []


def test_a_list_without_words_within_n_has_none() -> None:
    assert NearestWords(WordList("und", ("a",), "file"), 1, {1}).note("b", None) == Note()
