"""How a text is chosen, and what an author asks of it: what the replica is told."""

from typing import Any

from deployments.contract import RESCUE_SHARE, AskedWord, AuthorControls, Decoding, NewWordsAsked, VocabularySpec
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import SERVED, chat_body
from tests.deployments.protocol.readers import read_chat

LIST = {"lang": "es"}
CONSTRAINED = Decoding(hint=True)
"""Of a request with a vocabulary that says nothing of how its text is chosen."""
SENTENCES: dict[str, Any] = {"vocab": {**LIST, "search": {"width": 4}}}
RESCUED: dict[str, Any] = {"vocab": {**LIST, "rescue": True}}


def decoding(**fields: Any) -> Decoding:
    return read_chat(**fields).decoding


def test_a_request_that_says_nothing_gets_one_plain_sample() -> None:
    nothing: list[dict[str, Any]] = [
        {},
        *(
            {name: None}
            for name in ("num_beams", "best_of", "length_penalty", "early_stopping", "no_repeat_ngram_size")
        ),
        {"num_beams": 1, "best_of": 1, "temperature": 0},
    ]
    for fields in nothing:
        assert decoding(**fields) == Decoding()
        assert decoding(vocab=LIST, **fields) == CONSTRAINED
    assert decoding(vocab={**LIST, "select": None, "search": None, "hint": None, "score": None}) == CONSTRAINED
    assert Decoding().is_plain
    assert CONSTRAINED.is_plain


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
        (RESCUED, ALONE),
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


def test_the_replica_says_whether_runs_come_twice_unless_the_request_does() -> None:
    ways: list[dict[str, Any]] = [{}, {"num_beams": 4}, {"best_of": 4}, {"temperature": 0}]
    for fields in ways:
        assert decoding(vocab=LIST, **fields).no_repeat_ngram_size is None
        assert decoding(**fields).no_repeat_ngram_size is None
    assert decoding(vocab=LIST, no_repeat_ngram_size=0).no_repeat_ngram_size == 0


def test_every_field_reaches_the_decoding_and_none_the_engine() -> None:
    search = {"num_beams": 4, "length_penalty": 0.8, "early_stopping": "never", "no_repeat_ngram_size": 3}
    request = read_chat(**search, n=2)
    assert request.decoding == Decoding.model_validate(search)
    assert request.body == read_chat(n=2).body
    members = {"select": "posterior", "search": {"width": 16}, "hint": False, "score": True}
    request = read_chat(vocab={**LIST, **members})
    assert request.decoding == Decoding(search_width=16, select="posterior", score=True)
    assert request.vocabulary == read_chat(vocab=LIST).vocabulary
    flat = {"vocab_lang": "es", "vocab_n_words": 1000}
    assert decoding(best_of=4, no_repeat_ngram_size=2, **flat) == Decoding(best_of=4, no_repeat_ngram_size=2, hint=True)


def test_the_widest_search_and_as_many_texts_as_it_finds_are_taken() -> None:
    wide: list[dict[str, Any]] = [{"num_beams": 16}, {"best_of": 16}, {"vocab": {**LIST, "search": {"width": 16}}}]
    wide += [{"num_beams": 3, "n": 3}, {"best_of": 3, "n": 3}, {**SENTENCES, "n": 1}]
    assert not any(decoding(**fields).is_plain for fields in wide)


def test_texts_and_sentences_are_chosen_by_likelihood_unless_asked_otherwise() -> None:
    searches: list[dict[str, Any]] = [{"best_of": 4, "vocab": LIST}, SENTENCES]
    for fields in searches:
        assert decoding(**fields).select == "likelihood"
        vocab = {**fields["vocab"], "select": "posterior"}
        assert decoding(**{**fields, "vocab": vocab}).select == "posterior"


def test_a_text_goes_back_below_the_share_that_is_asked_for() -> None:
    for asked, share in ((True, RESCUE_SHARE), (0.3, 0.3), (0.5, 0.5), (False, 0), (0, 0), (None, None)):
        found = decoding(vocab={**LIST, "rescue": asked})
        assert found.rescue == share
        assert found.is_plain


def test_the_model_is_told_of_its_vocabulary_as_the_service_or_the_request_says() -> None:
    silent = ChatRequestReader(SERVED, hint=False)
    for vocab, by_default, by_a_silent_service in [
        (None, False, False),
        (LIST, True, False),
        ({**LIST, "hint": True}, True, True),
        ({**LIST, "hint": False}, False, False),
    ]:
        assert decoding(vocab=vocab).hint is by_default
        assert silent.read(chat_body(vocab=vocab)).decoding.hint is by_a_silent_service


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
