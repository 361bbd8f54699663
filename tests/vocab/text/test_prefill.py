"""What may follow a text that another began."""

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vocab.errors import PrefillError
from vocab.lists.wordlists import WordList
from vocab.options import Layout, ListOptions, Punctuation
from vocab.text.changes import ListChanges
from vocab.text.reader import TextReader

WORDS = ("the", "dog", "sat", "don't", "time", "Anna", "well-known", "a", "elephant")
EN = WordList("en", WORDS, "file")


def reader(options: ListOptions | None = None, *, words: WordList = EN, n_words: int = 8) -> TextReader:
    return TextReader(words, options or ListOptions(case="sentence", end="word"), n_words)


@pytest.mark.parametrize(
    ("before", "follows", "does_not_follow"),
    [
        ("Ana saw", " the dog", ["the dog", " The dog", "  the dog", "'s dog"]),
        ("Ana saw ", "the dog", [" the dog", "The dog", ", the dog"]),
        ("Ana saw", ", the dog", [",the dog"]),
        ("Ana ran.", " The dog", ["The dog", "the dog"]),
        ("Ana ran. ", "The dog", [" The dog"]),
        ("Ana ran.  ", "The dog", []),
        ("Ana ran.\n", "The dog", []),
        ("A list\n", "The dog", [" the dog"]),
        ("A list\n\n", "The dog", ["\nthe dog"]),
        ("# A list\n\n- ", "The dog", []),
        ('Ana said, "', 'the dog."', [" the dog", "the dog"]),
        ('Ana said, "I ran', '." The dog', [". The dog"]),
        ('Ana said, "I ran', ', the dog" sat', []),
        ("Ana (the", " dog) sat", [" dog"]),
        ("He ran –", " the dog", ["the dog"]),
        ("He ran – ", "the dog", [" the dog"]),
        ("He ran—", "the dog", [" the dog"]),
        ("In 1984", " the dog", ["the dog"]),
        ("**Story:**", " the dog", ["the dog"]),
        ("", "The dog", [",The dog"]),
    ],
)
def test_blanks_capitals_and_pairs_go_on_where_they_were(before: str, follows: str, does_not_follow: list[str]) -> None:
    following = reader().after(before)
    assert following.is_text(follows)
    for text in does_not_follow:
        assert not following.is_text(text), text


@pytest.mark.parametrize("text", ["the do", "Once upon a ti", "don", "don’", "An", "WELL-", "an eleph", '"Ti'])
def test_a_text_that_breaks_off_inside_a_word_cannot_go_on(text: str) -> None:
    with pytest.raises(PrefillError, match="inside a word"):
        reader().after(text)


@pytest.mark.parametrize(
    "text", ["a", "the dog", "THE", "the dog's", "Zebedee", "do ", "ti.", "an elephant", "7", "---", "ti-", "time*"]
)
def test_words_of_the_client_need_not_be_listed(text: str) -> None:
    assert reader().after(text).place is not None


def test_a_word_is_begun_if_it_begins_one_that_counts_or_is_none_itself() -> None:
    words = WordList("en", ("think", "dog", "thin"), "file")
    assert reader(words=words, n_words=3).after("was thin")
    added = TextReader(EN, ListOptions(), 8, changes=ListChanges(("Zorro",)))
    for beginning, whole in ((reader(words=words, n_words=2), "was thin"), (added, "Zor")):
        with pytest.raises(PrefillError):
            beginning.after(whole)


def test_an_elision_joins_what_follows() -> None:
    french = reader(words=WordList("fr", ("ami", "l'", "chien"), "file"), n_words=3)
    assert french.after("Voici l'").is_text("ami")
    assert french.after("Voici qu'").is_text("ami")
    assert not french.after("Voici l'").is_text(" ami")


def test_only_what_follows_is_counted_and_cut() -> None:
    following = reader().after("Zebedee saw the")
    assert following.coverage(" dog. The dog sat").num_words == 4
    assert following.coverage(".").num_words == 0
    assert following.whole_prefix_length(" dog. The dogma") == len(" dog. The")
    followed = following.follow()
    assert followed.add(" dog")
    assert followed.add(".")
    assert followed.num_whole == len(" dog.")
    again = reader().after("Ana said: “The dog").after(" sat. ")
    assert again.is_text("The dog.” The dog.")
    assert not again.is_text("The dog.")


OPTIONS = st.builds(
    ListOptions,
    punctuation=st.sampled_from(get_args(Punctuation)),
    layout=st.sampled_from(get_args(Layout)),
    numbers=st.booleans(),
    end=st.just("word"),
)


@example(ListOptions(end="word"), "..", "en")
@given(OPTIONS, st.text("xb .,!?\n\"'()«»“”—–-:;1*¿ü", max_size=20), st.sampled_from(["en", "es", "fr", "de"]))
def test_every_text_can_go_on(options: ListOptions, text: str, language: str) -> None:
    following = TextReader(WordList(language, ("ami",), "file"), options, 1).after(text)
    closings = ["", *(first + second for first in '"»“”)«' for second in ("", *'"»“”)«'))]
    # After two dots a third comes first.
    assert any(following.is_text(start + "ami" + end) for start in ("", " ", ". ") for end in closings), text
