"""Regular expressions and grammars of clients on the real stack: followed, or refused while others are served."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

from tests.e2e.service import Service
from tests.e2e.test_schemas import ask, assert_refused
from tests.hostile_grammars import EBNF, LARK, REGEXES

pytestmark = pytest.mark.e2e

EXPECTED = r"(Paris|London), [0-9]{2,3} km"
ANSWERS: dict[str, dict[str, Any]] = {
    "regex": {"regex": EXPECTED},
    "ebnf": {"grammar": 'root ::= ("Paris" | "London") ", " [0-9]{2,3} " km"'},
    "lark": {"grammar": 'start: TOWN ", " far " km"\nTOWN: "Paris" | "London"\nfar[capture]: /[0-9]{2,3}/'},
}


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize("language", ANSWERS)
def test_an_answer_is_a_text_of_the_clients_grammar(service: Service, language: str, is_chat: bool) -> None:
    answer = ask(service, {"structured_outputs": ANSWERS[language], "max_tokens": 30}, is_chat=is_chat)
    assert answer.status_code == 200, answer.text
    [choice] = answer.json()["choices"]
    text = choice["message"]["content"] if is_chat else choice["text"]
    assert re.fullmatch(EXPECTED, text), text


@pytest.mark.parametrize("language", ANSWERS)
def test_beside_a_word_list_a_grammar_is_refused(service: Service, language: str) -> None:
    fields = {"structured_outputs": ANSWERS[language], "vocab": {"lang": "en", "n_words": 300}}
    assert_refused(ask(service, fields), "structured_outputs", "vocab")


def test_what_cannot_be_compiled_says_why(service: Service) -> None:
    for fields, said in (
        ({"regex": "(yes"}, "The parenthesis is not closed"),
        ({"grammar": "root ::= missing"}, "missing"),
        ({"grammar": "start: missing"}, "unknown name"),
    ):
        answer = ask(service, {"structured_outputs": fields})
        assert_refused(answer, f"structured_outputs.{next(iter(fields))}", said)


def hostile() -> Iterator[dict[str, str]]:
    yield from ({"regex": regex} for regex in REGEXES)
    yield from ({"grammar": grammar} for grammar in (*EBNF, *LARK))


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.stress), 4])
def test_hostile_ones_end_while_others_are_served(service: Service, every: int) -> None:
    waits, took = list[float](), list[float]()
    with ThreadPoolExecutor(1) as client:
        for fields in islice(hostile(), 0, None, every):
            before = time.monotonic()
            asked = client.submit(ask, service, {"structured_outputs": fields, "max_tokens": 12})
            while not asked.done():
                begun = time.monotonic()
                assert ask(service, {"vocab_lang": "en", "vocab_n_words": 300}).status_code == 200
                waits.append(time.monotonic() - begun)
            took.append(time.monotonic() - before)
            assert asked.result().status_code in (200, 400), (fields, asked.result().text[:300])
    print(f"{len(took)} hostile ones: {max(took):.1f} s at most; others waited {max(waits):.1f} s at most")
    assert len(took) >= 60 / every
    # The processor time of each is 2 s at most; two cores carry them, the engine and this test.
    assert max(took) < 30
    assert max(waits) < 30
