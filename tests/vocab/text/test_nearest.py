"""The nearest words are of the same lemma, or are spelled almost so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.lists.wordlists import WordList
from vocab.text.nearest import MAX_CHARS, NearestWords
from vocab.text.report import ListedWord, Note

ENGLISH = ("the", "go", "I", "cat", "went", "house", "Anna", "children", "elephant")


def note(word: str, *words: str, rank: int | None = None, lang: str = "en", most: int = 3) -> Note:
    words = words or ENGLISH
    return NearestWords(WordList(lang, words, "file"), len(words)).note(word, rank, most)


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
    assert [listed.word for listed in note(word, *words, lang="und", most=len(words)).nearest] == order


@pytest.mark.parametrize(
    ("lang", "words", "word", "rank", "lemma", "nearest"),
    [
        ("en", "", "teh", None, None, "the"),
        ("en", "", "Hause", None, None, "house"),
        ("en", "", "goes", None, "go", "go went"),
        ("en", "", "ANNE", None, "Anne", "Anna"),
        ("en", "", "child", None, "child", "children"),
        ("en", "", "child’s", None, "child", "children"),
        ("en", "", "’s", None, "'s", ""),
        ("en", "", "xyzzy", None, None, ""),
        ("en", "", "𝒳", None, None, ""),
        ("en", "", "i", None, "I", "I"),
        # Three at most, the lemma itself first.
        ("en", "is was been be bee", "be", None, "be", "be is was"),
        # A word has the lemma of its entry.
        ("de", "Hund Hunde", "hund", 1, "Hund", "Hund Hunde"),
        # A language without lemmas has spellings.
        ("und", "house how", "hows", None, None, "how"),
        # A very long word is like none.
        ("und", "a" * MAX_CHARS + " " + "a" * (MAX_CHARS + 1), "a" * (MAX_CHARS - 1), None, None, "a" * MAX_CHARS),
        ("und", "a" * MAX_CHARS, "a" * (MAX_CHARS + 1), None, None, ""),
    ],
)
def test_words_of_the_same_lemma_come_before_those_of_a_similar_spelling(
    lang: str, words: str, word: str, rank: int | None, lemma: str | None, nearest: str
) -> None:
    listed = tuple(words.split()) or ENGLISH
    expected = tuple(ListedWord(one, listed.index(one) + 1) for one in nearest.split())
    assert note(word, *listed, rank=rank, lang=lang) == Note(lemma, expected)


def test_only_words_that_are_allowed_are_told() -> None:
    nearest = NearestWords(WordList("en", ENGLISH, "file"), 8, {1, 5}, ("teh", "Elephantine"))
    assert nearest.note("te", None).nearest == (ListedWord("teh", None),)
    assert nearest.note("elephants", None).nearest == ()
    assert nearest.note("going", None).nearest == (ListedWord("go", 2),)
    assert NearestWords(WordList("und", ("a",), "file"), 1, {1}).note("b", None) == Note()
    # Words that share a rank have it.
    words = WordList("en", ("be", "is", "house"), "file", (1, 1, 2))
    assert NearestWords(words, 1).note("houses", 2) == Note("house")
    assert NearestWords(words, 2).note("are", None).nearest == (ListedWord("be", 1), ListedWord("is", 1))
