"""What a real engine reports of a list's price, against the model's own logits."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.e2e.own_engine import run_program, save_short_list
from tests.vocab.toys import tokens_of
from vocab.automaton.tokenizer import Speller
from vocab.matching.engine_cache import EngineCache
from vocab.matching.log_mass import unpack
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

MAX_TOKENS: Final = 12
TOLERANCE: Final = 2e-4
LONG: Final = "Once there was a river that no one knew, and it ran to the sea. " * 12


class World:
    """A list, the model, and what the engine reported of requests that it served together."""

    def __init__(self, model_path: Path, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model_path)
        self.model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
        speller = Speller.from_tokenizer(self.tokenizer)
        self.folder = folder
        words = save_short_list(folder, speller)
        self.reference = GrammarReference(words.digest, ListOptions(punctuation="full"), 1000, MAX_TOKENS)
        self.states = EngineCache(folder, speller.facts).states(self.reference)
        self.num_words = (len(self.tokenizer) + 31) // 32
        listed = {"grammar": self.reference.to_ebnf()}
        self.requests = {
            "greedy": self.request("Tell me a story.", listed, temperature=0.0, logprobs=5),
            "cool": self.request("What is a river?", listed, temperature=0.7, logprobs=0),
            "long": self.request(LONG, listed, temperature=1.0, logprobs=3),
            "free": self.request("Tell me a story.", None, temperature=0.7, logprobs=2),
            "other grammar": self.request("Tell me a story.", {"regex": "[a-z ]{200}"}, temperature=0.0, logprobs=2),
            "seeded": self.request(LONG, listed, temperature=1.0, logprobs=0, seed=7),
            "seeded again": self.request(LONG + LONG[:99], listed, temperature=1.0, logprobs=0, seed=7),
            "unasked": self.request("What is a river?", listed, temperature=0.7, logprobs=None),
        }

    def request(self, prompt: str, constraint: dict[str, str] | None, **sampling: Any) -> dict[str, Any]:
        tokens = self.tokenizer.encode(prompt)
        return {"prompt": tokens, "constraint": constraint, "max_tokens": MAX_TOKENS, **sampling}

    def log_p(self, prompt: Sequence[int], tokens: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
        """The model's own, float64 (tokens, vocabulary)."""
        with torch.inference_mode():
            logits = self.model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        return (logits.double() / temperature).log_softmax(-1)

    def allowed(self, tokens: Sequence[int]) -> list[list[int]]:
        """For each token, all that might have come in its place."""
        stop = int(self.tokenizer.eos_token_id)
        matcher = Matcher(self.states, (stop,), MAX_TOKENS)
        allowed = []
        for token in tokens:
            bitmask = np.zeros(self.num_words, dtype=np.int32)
            matcher.fill_bitmask(bitmask)
            allowed.append(sorted(tokens_of(bitmask)))
            assert matcher.accept_token(token)
        return allowed


@pytest.fixture(scope="module")
def world(shallow_path: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(shallow_path, tmp_path_factory.mktemp("artefacts"))


@pytest.fixture(scope="module")
def reports(world: World, shallow_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("engine")
    asked, result, log = folder / "requests.json", folder / "reports.json", folder / "engine.log"
    asked.write_text(json.dumps(list(world.requests.values())))
    arguments = (str(shallow_path), str(asked), str(result))
    run_program("tests.e2e.measured_engine", *arguments, log=log, artefacts=world.folder)
    return dict(zip(world.requests, json.loads(result.read_text()), strict=True))


def log_p_errors(world: World, name: str, report: dict[str, Any]) -> list[float]:
    """How far each reported logprob is from the model's own; those of tokens that may not come count as right."""
    log_p = world.log_p(world.requests[name]["prompt"], report["tokens"])
    return [
        abs(value - float(log_p[place, token]))
        for place, position in enumerate(report["positions"])
        for token, value in zip(position["tokens"], position["logprobs"], strict=True)
        if value > -1e29
    ]


@pytest.mark.parametrize("name", ["greedy", "cool", "long"])
def test_p_is_the_models_own_for_the_sampled_token_and_the_top_ones(
    world: World, reports: dict[str, dict[str, Any]], name: str
) -> None:
    report = reports[name]
    assert len(report["positions"]) == len(report["tokens"]) > 1
    assert [position["tokens"][0] for position in report["positions"]] == report["tokens"]
    errors = log_p_errors(world, name, report)
    assert len(errors) >= len(report["tokens"])
    assert max(errors) < TOLERANCE


def test_a_seed_with_a_prompt_of_several_steps_does_not_end_the_engine(
    world: World, reports: dict[str, dict[str, Any]]
) -> None:
    for name in ("seeded", "seeded again"):
        assert len(world.allowed(reports[name]["tokens"])) > 1


@pytest.mark.parametrize("name", ["greedy", "cool", "long"])
def test_the_masses_are_those_of_the_tokens_that_might_have_come(
    world: World, reports: dict[str, dict[str, Any]], name: str
) -> None:
    request, report = world.requests[name], reports[name]
    allowed = world.allowed(report["tokens"])
    for field, temperature in enumerate((1.0, request["temperature"] or 1.0)):
        log_p = world.log_p(request["prompt"], report["tokens"], temperature)
        expected = [float(log_p[place, tokens].logsumexp(0)) for place, tokens in enumerate(allowed)]
        result = [unpack(position["rank"])[field] for position in report["positions"]]
        assert result == pytest.approx(expected, abs=TOLERANCE)
        assert min(expected) < -0.1, "the list costs something"


@pytest.mark.parametrize("name", ["free", "other grammar"])
def test_others_keep_the_engines_own_logprobs_and_ranks(
    world: World, reports: dict[str, dict[str, Any]], name: str
) -> None:
    report = reports[name]
    assert all(1 <= position["rank"] < 49_152 for position in report["positions"])
    errors = log_p_errors(world, name, report)
    # Another grammar's are renormalised over what it allows.
    assert (max(errors) < TOLERANCE) == (name == "free")


def test_who_asks_for_no_logprobs_gets_none(world: World, reports: dict[str, dict[str, Any]]) -> None:
    assert reports["unasked"]["positions"] == []
    world.allowed(reports["unasked"]["tokens"])
