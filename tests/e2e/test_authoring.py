"""What authors ask beyond a list, on the real stack, read again as strings."""

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.e2e.service import Answer, Service
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker

pytestmark = pytest.mark.e2e

BRIEFS = ("Tell me a story about a dog.", "Describe a market in the morning.", "Write about a journey by train.")
WANTED = ("river", "garden", "letter")
REACH = 4000


def answers(service: Service, vocab: dict[str, Any], num_answers: int = 6, **fields: Any) -> list[Answer]:
    def ask(number: int) -> Answer:
        vocab_of = {"lang": "en", "n_words": 1000, **vocab}
        return service.ask(
            BRIEFS[number % len(BRIEFS)], vocab_of, stream=number % 2 == 0, max_tokens=90, seed=number, **fields
        )

    with ThreadPoolExecutor(6) as pool:
        return list(pool.map(ask, range(num_answers)))


def _base(word: str) -> str:
    return re.sub(r"['’]s$", "", word.lower())


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?…])[”\"')\]]* (?![-–—])|\n", text) if re.search(r"\w", part)]


def test_new_words_are_those_of_the_answers_block_and_no_more(service: Service) -> None:
    words = load_word_list("en", None)
    checker, seen = TextChecker(words, ListOptions(), 1000), 0
    for answer in answers(service, {"new_words": {"n_words": REACH, "per_100": 5, "max": 3}}, 12, temperature=1.0):
        assert answer.vocab is not None
        result = answer.vocab["new_words"]
        found = {answer.text[word.start : word.end] for word in checker.check(answer.text).not_allowed}
        assert {_base(word) for word in found} == {_base(one["word"]) for one in result}
        assert len(result) <= 3 and all(1000 < one["rank"] <= REACH for one in result)
        for one in result:
            assert answer.text[one["start"] :].lower().startswith(one["word"].lower())
        starts = [len(answer.text[: one["start"]].split()) for one in result]
        assert all(after - before >= 20 for before, after in pairwise(starts))
        seen += len(result)
    assert seen


@pytest.mark.parametrize("fields", [{}, {"best_of": 3}, {"num_beams": 3}], ids=["drawn", "best_of", "beams"])
def test_required_words_come(service: Service, fields: dict[str, Any]) -> None:
    must_use = [{"word": word} for word in WANTED]
    for answer in answers(service, {"must_use": must_use}, 2 if fields else 6, extra_body=fields):
        assert answer.vocab is not None
        assert answer.vocab["must_use"] == [
            {"word": word, "count": 1, "used": len(re.findall(rf"\b{word}\b", answer.text, re.IGNORECASE))}
            for word in WANTED
        ]
        assert all(one["used"] for one in answer.vocab["must_use"]), answer.text


def test_sentences_are_as_long_and_as_many_as_asked(service: Service) -> None:
    for answer in answers(service, {"max_sentence_words": 6, "min_sentences": 2, "max_sentences": 3}):
        assert answer.vocab is not None
        lengths = [len(re.findall(r"\w[\w'’-]*", sentence)) for sentence in sentences(answer.text)]
        assert max(lengths) <= 6 and 2 <= len(lengths) <= 3, answer.text
        assert (answer.vocab["num_sentences"], answer.vocab["longest_sentence"]) == (len(lengths), max(lengths))


def test_a_search_by_sentences_keeps_to_the_wishes(service: Service) -> None:
    vocab = {"search": {"width": 2}, "max_sentence_words": 8, "max_sentences": 2, "must_use": [{"word": "kitten"}]}
    [answer] = answers(service, vocab, 1)
    assert answer.vocab is not None
    assert answer.vocab["num_sentences"] == 2
    assert answer.vocab["must_use"] == [{"word": "kitten", "count": 1, "used": 1}]


def test_what_checks_a_text_agrees_with_its_required_words(service: Service) -> None:
    changes = ListChanges(("kitten",))
    checker = TextChecker(load_word_list("en", None), ListOptions(), 1000, changes)
    for answer in answers(service, {"must_use": [{"word": "kitten", "count": 2}]}, 2):
        assert checker.check(answer.text).coverage == 1.0


def test_odd_required_words_go_with_logprobs(service: Service) -> None:
    # Near the end of its budget a text has words that no text without a budget may have there.
    must_use = [{"word": word} for word in ("ñ", "x\u0301", ". a")]
    vocab = {"lang": "fr", "n_words": 20_000, "must_use": must_use}
    fields: dict[str, Any] = {"logprobs": True, "top_logprobs": 20, "extra_body": {"vocab": vocab}}
    for stream in (False, True):
        answer = service.start("Raconte une histoire.", stream=stream, max_tokens=40, seed=47, **fields)
        choices = [choice for part in (answer if stream else [answer]) for choice in part.choices]
        entries = [entry for choice in choices if choice.logprobs for entry in choice.logprobs.content or ()]
        assert entries and all(len(entry.top_logprobs) <= 20 for entry in entries)
