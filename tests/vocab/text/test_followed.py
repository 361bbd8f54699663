"""In every language, texts read in parts are judged as the definition judges the whole of what was read."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.choices import Choice, choices
from tests.recogniser import CLOSE_MARKS, OPEN_MARKS, STANDARD_MARKS, Recogniser
from vocab.lists.wordlists import WordList, known_languages, load_word_list, unspaced_language
from vocab.options import ListOptions
from vocab.text.reader import UNKNOWN_FOLLOWING, Coverage, TextReader

NUM_WORDS, NUM_LISTED = 40, 24
ELIDED: Final = frozenset({"fr", "it", "ca"})
NEVER_IN_WORDS: Final = frozenset(" \n" + CLOSE_MARKS + OPEN_MARKS + "\u06d4")
GAPS: Final = (
    " ",
    " ",
    " ",
    ". ",
    ", ",
    ": ",
    "? ",
    "! ",
    "... ",
    ".\n",
    " - ",
    "—",
    ' "',
    '" ',
    " (",
    ") ",
    "\n",
    ";",
)


@lru_cache(maxsize=1)
def words_of(lang: str) -> tuple[str, ...]:
    """Some of the first words of a list, without marks in them, so that each ends where a mark stands."""
    words = load_word_list(lang, None).words[:2_000]
    return tuple(word for word in words[::40] if NEVER_IN_WORDS.isdisjoint(word))[:NUM_WORDS]


def languages() -> Sequence[str]:
    return [name for name in known_languages(None) if unspaced_language(name) is None]


@st.composite
def texts(draw: st.DrawFn, words: Sequence[str]) -> str:
    """Words that are listed or not or cut, with or without a capital, and what may stand between words."""
    parts = list[str]()
    for _ in range(draw(st.integers(1, 6))):
        word = draw(st.sampled_from(words[:NUM_LISTED])) if draw(st.integers(0, 9)) else draw(st.sampled_from(words))
        if not draw(st.integers(0, 9)):
            word = word[: draw(st.integers(0, len(word)))]
        parts += [word[:1].title() + word[1:] if draw(st.booleans()) else word, draw(st.sampled_from(GAPS))]
    return "".join(parts[:-1]) + draw(st.sampled_from(("", ".", " ", "!", '"')))


def cut_into_parts(data: st.DataObject, text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        size = data.draw(st.integers(1, 9))
        yield text[place : place + size]
        place += size


@pytest.mark.parametrize("lang", languages())
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data(), choice=choices())
def test_parts_are_judged_as_the_whole_of_what_was_read(lang: str, data: st.DataObject, choice: Choice) -> None:
    words, choice = words_of(lang), Choice(**{**choice, "numbers": False})
    if choice["punctuation"] == "standard" and lang not in STANDARD_MARKS:
        choice["punctuation"] = "full"
    reader = TextReader(WordList(lang, words, "file"), ListOptions(**choice), NUM_LISTED)
    judge = Recogniser(words, NUM_LISTED, lang, **choice)
    text = data.draw(texts(words))
    followed, read, whole, complete = reader.follow(), "", 0, 0
    for part in cut_into_parts(data, text):
        goes_on, read = followed.add(part), read + part
        # Which words may follow an elision is not known before they are whole.
        assert judge.is_prefix(read) <= goes_on and (goes_on <= judge.is_prefix(read) or lang in ELIDED)
        ends = [place for place in range(1, len(read)) if judge.is_text(read[:place])]
        complete = max((place for place in ends if read[place] in NEVER_IN_WORDS), default=0)
        assert followed.num_complete == complete == reader.whole_prefix_length(read, UNKNOWN_FOLLOWING)
        if not goes_on:
            return
        assert whole <= followed.num_whole <= len(read)
        whole = followed.num_whole
        # All words before the last blank are whole, and none is cut.
        assert read.rfind(" ") < whole or "  " in read[whole:] or whole == len(read)
        assert not whole or not NEVER_IN_WORDS.isdisjoint(read[whole - 1 : whole + 1])
        assert judge.is_prefix(read[:whole])
    is_text = judge.is_text(text)
    assert reader.is_text(text) == is_text
    assert followed.whole_prefix_length() == reader.whole_prefix_length(text) == (len(text) if is_text else complete)
    if is_text:
        assert followed.coverage() == reader.coverage(text)


@pytest.mark.parametrize("lang", languages())
def test_words_are_counted_by_their_ranks(lang: str) -> None:
    words = [word for word in words_of(lang) if word[-1] not in "'’"]
    listed = [*words[:NUM_LISTED], *words[2:5]]
    coverage = TextReader(WordList(lang, tuple(words), "file"), ListOptions("any"), NUM_LISTED).coverage
    capital = " ".join([listed[0].title() if len(listed[0].title()) == 1 else listed[0], *listed[1:]])
    assert coverage(capital + ".") == Coverage(len(listed), NUM_LISTED, NUM_LISTED)
