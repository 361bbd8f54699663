"""How a text is chosen, and what an author asks of it: what the replica is told."""

from typing import Any

from deployments.contract import RESCUE_SHARE, AskedWord, AuthorControls, Decoding, NewWordsAsked, VocabularySpec
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import SERVED, chat_body
from tests.deployments.protocol.readers import read_chat

LIST = {"lang": "es"}
SENTENCES: dict[str, Any] = {"vocab": {**LIST, "search": {"width": 4}}}
BEAMS: dict[str, Any] = {"num_beams": 4, "length_penalty": 0.8, "early_stopping": "never", "no_repeat_ngram_size": 3}

MEMBERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"select": None, "search": None, "hint": None, "score": None, "rescue": None}, {}),
    ({"hint": False}, {"hint": False}),
    ({"search": {"width": 16}, "n_words": 5}, {"search_width": 16}),
    (
        {"select": "posterior", "search": {"width": 4}, "score": True},
        {"search_width": 4, "select": "posterior", "score": True},
    ),
    *(({"rescue": asked}, {"rescue": share}) for asked, share in ((True, RESCUE_SHARE), (0.3, 0.3), (0.5, 0.5))),
    *(({"rescue": asked}, {"rescue": 0.0}) for asked in (False, 0)),
]
TOLD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    *(({name: None}, {}) for name in (*BEAMS, "best_of")),
    ({"num_beams": 1, "best_of": 1, "temperature": 0}, {}),
    ({**BEAMS, "n": 2}, BEAMS),
    *(({name: width, "n": n}, {name: width}) for name in ("num_beams", "best_of") for width, n in ((16, 1), (3, 3))),
    # The replica says whether runs come twice unless the request does.
    ({"vocab": LIST, "no_repeat_ngram_size": 0}, {"no_repeat_ngram_size": 0, "hint": True}),
    ({"vocab_lang": "es", "vocab_n_words": 9, "best_of": 4}, {"best_of": 4, "hint": True}),
    *(({"vocab": {**LIST, **members}}, {"hint": True, **told}) for members, told in MEMBERS),
    ({"vocab": {**LIST, "select": "posterior"}, "best_of": 4}, {"best_of": 4, "select": "posterior", "hint": True}),
]
"""The fields of a request, and what of its decoding is not the default."""


def test_every_field_reaches_the_decoding_and_none_the_engine() -> None:
    for fields, told in TOLD:
        request = read_chat(**fields)
        assert request.decoding == Decoding(**told), fields
        assert request.decoding.is_plain is told.keys().isdisjoint({"num_beams", "best_of", "search_width", "score"})
        assert request.body.keys().isdisjoint({*BEAMS, "best_of", "vocab"})
        if "vocab" in fields and "n_words" not in fields["vocab"]:
            assert request.vocabulary == read_chat(vocab=LIST).vocabulary


SAMPLING = ("temperature", "top_p", "top_k", "min_p", "presence_penalty")
ALONE = {"temperature": 0.3, "min_p": 0.1, "presence_penalty": 1.0}


def test_constrained_text_is_drawn_colder_unless_the_request_says_how() -> None:
    expected: list[tuple[dict[str, Any], dict[str, float]]] = [
        ({}, {}),
        ({"best_of": 4}, {}),
        ({"vocab": LIST}, ALONE),
        ({"vocab_lang": "es", "vocab_n_words": 9}, ALONE),
        ({"vocab": LIST, "best_of": 1, "num_beams": 1}, ALONE),
        ({"vocab": LIST, "best_of": 4}, {"temperature": 0.5}),
        (SENTENCES, {"temperature": 0.5}),
        ({"vocab": {**LIST, "rescue": True}}, ALONE),
        ({"vocab": LIST, "num_beams": 4}, {}),
        ({"vocab": LIST, "temperature": None}, ALONE),
        *(({"vocab": LIST, name: 1}, {name: 1.0}) for name in SAMPLING[:4]),
        ({"vocab": LIST, "presence_penalty": 0}, ALONE | {"presence_penalty": 0}),
        ({"vocab": LIST, "presence_penalty": 0.5, "frequency_penalty": 0.1}, ALONE | {"presence_penalty": 0.5}),
        ({"vocab": LIST, "temperature": 0}, {"temperature": 0}),
        ({"vocab": LIST, "best_of": 4, "top_p": 0.9}, {"top_p": 0.9}),
    ]
    for fields, sampling in expected:
        body = read_chat(**fields).body
        assert {name: body[name] for name in SAMPLING if name in body} == sampling, fields


def test_a_service_that_is_silent_tells_the_model_of_its_vocabulary_where_a_request_wants_it() -> None:
    silent = ChatRequestReader(SERVED, hint=False)
    asked = (None, LIST, {**LIST, "hint": True})
    assert [silent.read(chat_body(vocab=vocab)).decoding.hint for vocab in asked] == [False, False, True]


class TestAuthor:
    """The members of ``vocab`` with which an author asks for more than words of a list."""

    def read(self, **vocab: Any) -> tuple[AuthorControls | None, VocabularySpec]:
        request = read_chat(vocab={"lang": "en", "n_words": 1000, **vocab})
        assert request.vocabulary is not None
        assert request.decoding.is_plain
        return request.decoding.author, request.vocabulary

    def test_every_wish_reaches_the_replica(self) -> None:
        author, _ = self.read(
            new_words={"n_words": 3000, "per_100": 1.5, "max": 10},
            must_use=[{"word": "dog"}, {"word": "go", "count": 2, "any_form": True}],
            max_sentence_words=8,
            min_sentences=2,
            max_sentences=5,
        )
        words = (AskedWord("dog"), AskedWord("go", 2, True))
        assert author == AuthorControls(NewWordsAsked(3000, 1.5, 10), words, 8, 2, 5)
        assert self.read()[0] is None
        assert self.read(must_use=[])[0] is None

    def test_new_words_are_two_in_a_hundred_and_the_list_is_compiled_as_far_as_they_reach(self) -> None:
        author, vocabulary = self.read(new_words={"n_words": 60_000})
        assert author == AuthorControls(NewWordsAsked(60_000, 2, None))
        assert (vocabulary.n_words, vocabulary.reach) == (1000, 60_000)

    def test_required_words_are_added_to_the_list(self) -> None:
        _, vocabulary = self.read(extra_words=["Ana"], must_use=[{"word": "geranium"}, {"word": "Ana"}])
        assert vocabulary.extra_words == ("Ana", "geranium")
