"""The members of ``vocab`` with which an author asks for more than words of a list."""

from typing import Any

import pytest

from deployments.contract import AskedWord, AuthorControls, NewWordsAsked
from deployments.errors import BadRequestError
from deployments.protocol.reader import ChatRequest, ChatRequestReader
from deployments.settings.limits import Limits

READER = ChatRequestReader("m", Limits())


def read(**vocab: Any) -> ChatRequest:
    body = {"messages": [{"role": "user", "content": "Hello"}], "vocab": {"lang": "en", "n_words": 1000, **vocab}}
    return READER.read(body)


def fault(**vocab: Any) -> BadRequestError:
    with pytest.raises(BadRequestError) as caught:
        read(**vocab)
    return caught.value


def test_every_wish_reaches_the_replica() -> None:
    asked = read(
        new_words={"n_words": 3000, "per_100": 1.5, "max": 10},
        must_use=[{"word": "dog"}, {"word": "go", "count": 2, "any_form": True}],
        max_sentence_words=8,
        min_sentences=2,
        max_sentences=5,
    )
    assert asked.decoding.author == AuthorControls(
        NewWordsAsked(3000, 1.5, 10), (AskedWord("dog"), AskedWord("go", 2, True)), 8, 2, 5
    )
    assert asked.decoding.is_plain


def test_without_wishes_there_are_no_controls() -> None:
    assert read().decoding.author is None
    assert read(must_use=[]).decoding.author is None


def test_new_words_are_two_in_a_hundred_by_default() -> None:
    author = read(new_words={"n_words": 2000}).decoding.author
    assert author is not None
    assert author.new_words == NewWordsAsked(2000, 2, None)


def test_a_list_is_compiled_as_far_as_its_new_words_reach() -> None:
    vocabulary = read(new_words={"n_words": 60_000}).vocabulary
    assert vocabulary is not None
    assert (vocabulary.n_words, vocabulary.reach) == (1000, 60_000)


def test_required_words_are_added_to_the_list() -> None:
    vocabulary = read(extra_words=["Ana"], must_use=[{"word": "geranium"}, {"word": "Ana"}]).vocabulary
    assert vocabulary is not None
    assert vocabulary.extra_words == ("Ana", "geranium")


@pytest.mark.parametrize(
    ("vocab", "param"),
    [
        ({"new_words": {"n_words": 1000}}, "vocab.new_words.n_words"),
        ({"n_words": None, "new_words": {"n_words": 3000}}, "vocab.new_words.n_words"),
        ({"new_words": {"per_100": 2}}, "vocab.new_words.n_words"),
        ({"new_words": {"n_words": 3000, "per_100": 0}}, "vocab.new_words.per_100"),
        ({"new_words": {"n_words": 3000, "per_100": 101}}, "vocab.new_words.per_100"),
        ({"new_words": {"n_words": 3000, "max": 0}}, "vocab.new_words.max"),
        ({"new_words": {"n_words": 3000, "many": 0}}, "vocab.new_words.many"),
        ({"new_words": 3000}, "vocab.new_words"),
        ({"must_use": "dog"}, "vocab.must_use"),
        ({"must_use": ["dog"]}, "vocab.must_use[0]"),
        ({"must_use": [{"word": "dog", "count": 0}]}, "vocab.must_use[0].count"),
        ({"must_use": [{"word": ""}]}, "vocab.must_use[0].word"),
        ({"must_use": [{"word": "a"}, {"word": "b\nc"}]}, "vocab.must_use[1].word"),
        ({"must_use": [{"word": "dog"}, {"word": "dog"}]}, "vocab.must_use[1].word"),
        ({"must_use": [{"word": "a", "count": 40}, {"word": "b", "count": 40}]}, "vocab.must_use"),
        ({"must_use": [{"word": f"w{i}"} for i in range(33)]}, "vocab.must_use"),
        ({"must_use": [{"word": "dog"}], "exclude_words": ["Dog"]}, "vocab.must_use"),
        ({"max_sentence_words": 1}, "vocab.max_sentence_words"),
        ({"max_sentences": 0}, "vocab.max_sentences"),
        ({"min_sentences": 4, "max_sentences": 3}, "vocab.min_sentences"),
        ({"max_sentences": 4, "end": "word"}, "vocab.max_sentences"),
        ({"min_sentences": 4, "punctuation": "none"}, "vocab.min_sentences"),
    ],
)
def test_a_wish_that_cannot_be_met_names_its_member(vocab: dict[str, Any], param: str) -> None:
    error = fault(**vocab)
    assert error.param == param
    assert param.rpartition(".")[2].partition("[")[0] in error.message
