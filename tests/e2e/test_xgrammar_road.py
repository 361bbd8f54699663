"""The same promise with ``MASK_ENGINE=xgrammar``: the list sent as a grammar, a last partial word trimmed."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import LISTS, Service
from tests.e2e.test_service import QUESTIONS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {"mask_engine": "xgrammar"}


def test_twenty_answers_have_listed_words_only_and_whole(own_service: Service) -> None:
    every = list(itertools.product((100, 1000), (False, True), (0.0, 1.0), QUESTIONS))
    cases = [(lang, n_words, stream, temperature) for n_words, stream, temperature, lang in every][-20:]

    def ask(case: tuple[str, int, bool, float]) -> None:
        lang, n_words, stream, temperature = case
        # This engine does not count tokens: of an answer cut before its first sentence's end nothing would be left.
        vocab = {"lang": lang, "n_words": n_words, "end": "word"}
        answer = own_service.ask(QUESTIONS[lang], vocab, stream=stream, temperature=temperature, max_tokens=25, seed=1)
        assert_only_listed_words(answer.text, lang, n_words)
        assert answer.vocab is not None
        assert answer.vocab["max_rank"] <= n_words

    with ThreadPoolExecutor(8) as pool:
        for done in pool.map(ask, cases):
            assert done is None


def test_answers_keep_to_options_and_changes_and_end_with_whole_sentences(own_service: Service) -> None:
    options = {
        "numbers": True,
        "punctuation": "basic",
        "layout": "lines",
        "end": "sentence",
        "extra_words": ["Zaragoza"],
        "exclude_words": ["the"],
    }

    def ask(number: int) -> None:
        answer = own_service.ask(
            "Write three short sentences about Zaragoza.",
            {"lang": "en-school", "n_words": 400, **options},
            stream=number % 2 == 0,
            temperature=1,
            max_tokens=40,
            seed=number,
        )
        # A budget that the grammar does not see may end before the first sentence does: then there is no text.
        if answer.text:
            assert_only_listed_words(
                answer.text,
                "en-school",
                400,
                LISTS["en-school"],
                numbers=True,
                punctuation="basic",
                end="sentence",
                extra_words=["Zaragoza"],
                exclude_words=["the"],
            )

    with ThreadPoolExecutor(8) as pool:
        for done in pool.map(ask, range(10)):
            assert done is None
