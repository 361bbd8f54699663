"""The benchmark of prefix traps: what it counts, and how it reads the tokens of an answer from a service."""

import argparse
import base64
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from benchmarks import traps
from benchmarks.prose import word_steps
from benchmarks.prose.prompts import languages, load_prompts
from benchmarks.prose.records import Cell
from benchmarks.prose.word_steps import Step, StepReader, WordCounts, count_words
from benchmarks.traps import ARMS, figures, find_arm, load_everyday, share_kept
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import SERVED, chat_body
from tests.vocab.toys import STOP, toy_speller, toy_tokenizer, word_list

PIECES = ["Der", " B", "ahn", "rot", " der", "."]
FACTS = toy_tokenizer(PIECES)
SPELLER = toy_speller(FACTS)
CELL = Cell("m", "de", 2, 60, find_arm("rescue", 1))
BEGIN: Final = "begins"
ON: Final = "continues"


def token(text: str) -> int:
    return FACTS.token_bytes.index(text.encode())


class Scripted:
    """A service whose model gives most of its probability to one token after each of these texts."""

    def __init__(self, wishes: dict[str, tuple[str, float]]) -> None:
        self.wishes = wishes
        self.asked: list[Any] = []

    def tokens(self) -> dict[str, Any]:
        spelled = [base64.b64encode(one).decode() for one in FACTS.token_bytes]
        return {"model": "m", "tokens": spelled, "eos_token_ids": [STOP]}

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/tokenize":
            return {"tokens": SPELLER.spell([body["prompt"]])[0]}
        self.asked.append(body["vocab"])
        return {"prompt_token_ids": [1, 2]}

    def token_logprobs(self, prompt: list[int], tokens: Sequence[int], model: str | None) -> dict[str, list[float]]:
        return {"logprobs": [float(self.row(tokens[:at])[one]) for at, one in enumerate(tokens)]}

    def logprobs(self, prompts: list[list[int]], model: str | None) -> Any:
        self.asked += [(model, self.text(prompt[2:])) for prompt in prompts]
        return np.stack([self.row(prompt[2:]) for prompt in prompts])

    def row(self, tokens: Sequence[int]) -> Any:
        wish, p = self.wishes.get(self.text(tokens), ("Der", 0.5))
        row = np.full(len(FACTS.token_bytes), (1 - p) / (len(FACTS.token_bytes) - 1), dtype=np.float32)
        row[token(wish)] = p
        return np.log(row)

    def text(self, tokens: Sequence[int]) -> str:
        return b"".join(FACTS.token_bytes[one] for one in tokens).decode()


def test_a_word_is_a_trap_where_a_later_token_had_little_room() -> None:
    steps = [
        Step("Der", -9.0, BEGIN, 0.01),  # its first token: a list of few words, and no trap
        Step(" B", -1.0, BEGIN),
        Step("ah", -0.1, ON),
        Step("n", -7.0, ON, 0.049),
        Step(" B", -1.0, BEGIN),
        Step("ahn", -4.0, ON, 0.05),
        Step(".", -3.0, "", 0.02, "hof"),
        Step(" Der", -3.0, BEGIN, 0.02, "Wunsch"),  # between words nothing is cut off
        Step(" B", -1.0, BEGIN),
        Step("ahn", -4.0, ON, 0.001),
        Step(" der", -4.0, BEGIN, 0.4, "hof"),  # after a trap: counted once
    ]
    assert count_words(steps) == WordCounts(num_words=6, num_traps=2, num_fragments=1)
    assert count_words([]) == WordCounts(0, 0, 0)


@pytest.fixture(autouse=True)
def toy_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_steps, "load_speller", lambda _: SPELLER)
    monkeypatch.setattr(word_steps, "load_word_list", lambda *_: word_list(("der", "Bahn", "Brot"), "de"))


@pytest.mark.parametrize(("words", "mass"), [(None, 0.01), ([{"word": "Brot", "rank": 9, "forms": ["Brote"]}], 0.97)])
def test_the_room_of_a_token_is_what_the_list_allows_there(words: Any, mass: float) -> None:
    service: Any = Scripted({"Der": (" B", 0.9), "Der B": ("rot", 0.97)})
    answer = {"prompt": "Was?", "text": "Der Bahn.", "vocab": {"prompt_words": words, "adapter": "simple-de"}}
    steps = StepReader(service, "folder").steps(CELL, answer)
    assert [(step.text, step.part) for step in steps] == [("Der", BEGIN), (" B", BEGIN), ("ahn", ON), (".", "")]
    assert steps[1].log_p == pytest.approx(math.log(0.9))
    assert [step.mass is None for step in steps] == [True, True, False, True]
    assert (steps[2].mass or 0) == pytest.approx(mass, abs=0.01)
    assert count_words(steps).num_traps == (words is None)
    # The prompt is that of a plain draw, whatever searched for the text, and one row was enough.
    assert service.asked == [{"lang": "de", "n_words": 2, "rescue": False, "end": "word"}, ("simple-de", "Der B")]


def test_a_word_that_the_model_meant_to_go_on_is_seen_where_asked() -> None:
    service: Any = Scripted({"Der Bahn": ("rot", 0.8)})
    answer = {"prompt": "Was?", "text": "Der Bahn.", "vocab": {}}
    assert count_words(StepReader(service, "folder").steps(CELL, answer)).num_fragments == 0
    counts = count_words(StepReader(service, "folder", with_fragments=True).steps(CELL, answer))
    assert counts.num_fragments == 1 - counts.num_traps


def test_a_possessive_belongs_to_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_steps, "load_word_list", lambda *_: word_list(("der", "Bahn"), "en"))
    answer = {"prompt": "Was?", "text": "Der Bahn's.", "vocab": {}}
    service: Any = Scripted({"Der Bahn": ("rot", 0.97)})
    steps = StepReader(service, "folder").steps(CELL._replace(lang="en"), answer)
    assert [step.part for step in steps] == [BEGIN, BEGIN, ON, ON, ON, ""]
    assert count_words(steps) == WordCounts(2, 1, 0)


def test_a_text_is_read_as_far_as_the_list_goes_and_another_tokenizer_is_refused() -> None:
    service: Any = Scripted({})
    answer = {"prompt": "Was?", "text": "Der Brot.", "vocab": {}}
    assert [step.text for step in StepReader(service, "folder").steps(CELL, answer)] == ["Der", " B"]
    service.tokens = lambda: {"model": "m", "tokens": ["eHg=", "eHg="], "eos_token_ids": [0]}
    with pytest.raises(ValueError, match="folder has other tokens than m: give the folder of the served model"):
        StepReader(service, "folder")


def test_arms_are_requests_and_may_be_joined() -> None:
    joined = find_arm("rescue+prompt-words", 2)
    assert joined.fields == {"seed": 2}
    assert joined.vocab == {"score": True, "rescue": True, "prompt_words": True}
    assert find_arm("rescue", 2).searches
    assert not find_arm("no-rescue", 2).searches
    for name in ARMS.keys() - {"prompt-words"}:
        arm = find_arm(name, 1)
        body = chat_body(**arm.fields, vocab={"lang": "en", "n_words": 10, **arm.vocab})
        assert ChatRequestReader(SERVED).read(body).vocabulary is not None
    with pytest.raises(argparse.ArgumentTypeError, match="there is no 'beam': choose of default"):
        traps._names(list(ARMS), "default,beam+rescue")


def test_each_language_has_eight_prompts_of_its_own_with_their_nouns() -> None:
    everyday = load_everyday()
    assert list(everyday) == ["en", "de", "es", "fr", "it"]
    known = {prompt for lang in languages() for prompt in load_prompts(lang, 99)}
    for prompts in everyday.values():
        assert len(prompts) == 8
        assert not known & prompts.keys()
        assert all(share_kept(nouns, prompt) == 1 for prompt, nouns in prompts.items())


def test_nouns_count_by_their_beginnings() -> None:
    nouns = ["baker", "sea=/seas=", "cake"]
    assert share_kept(nouns, "The bakers' season, at sea.") == pytest.approx(2 / 3)
    assert share_kept(["anniversaire"], "Un gâteau d’anniversaire") == 1


def test_a_row_has_the_figures_of_its_texts() -> None:
    about = {"prompt": "p", "num_answer_tokens": 10, "started": 1.0}
    costs = {"bits_per_char": 0.5, "log_mass_per_word": 0.4, "num_words": 2}
    answers = [
        {**about, "text": "The sea.", "num_generated_tokens": 15, "ended": 2.0, "vocab": costs},
        {**about, "text": "A cat. A cat. A cat.", "num_generated_tokens": 25, "ended": 4.0, "vocab": costs},
    ]
    steps = [{"steps": [["The", -1.0, "begins", None, ""], [" s", -1, "begins", None, ""], ["ea", -9, ON, 0.01, ""]]}]
    row = figures(answers, [*steps, *steps], {"p": ["sea"]}, has_fragments=False)
    assert row == ["2", "4", "50.00", "–", "0.50", "0.40", "50%", "0.167", "2.00", "0.200"]
