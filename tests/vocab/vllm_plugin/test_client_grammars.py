"""Clients' grammars in vLLM's own manager of structured outputs: what explodes ends, what is ordinary does not."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from vllm.v1.request import Request

from tests.hostile_grammars import BEGINNING, HIDDEN, explosive, sharp
from tests.vocab.vllm_plugin.manager import EOS, Manager, Row, installed_plugin
from vocab.matching.reference import write_client_grammar

MAX_TOKENS = 1024
ENDED = "the client's grammar took too long"

ORDINARY: dict[str, dict[str, Any]] = {
    "schema": {"json": {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(30)}}},
    "nested": {"json": {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}}},
    "any object": {"json_object": True},
    "tool": {"json": {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}},
    "prose": {"regex": r"[A-Z][a-z]+(,? [a-z]+)*\."},
    "words": {"regex": "(" + "|".join(f"word{i}" for i in range(2_000)) + ")( (word|name|[0-9]+))*"},
    "sums": {"grammar": 'root ::= e\ne ::= t (("+" | "-") t)*\nt ::= f (("*" | "/") f)*\nf ::= [0-9]+ | "(" e ")"'},
    "sentences": {
        "grammar": 'start: (s " ")* s\ns: "the " N " " V "."\nV: "sees" | "runs"\nN: '
        + " | ".join(f'"noun{i}"' for i in range(500))
    },
}


class Engine(Manager):
    """A manager of clients' grammars."""

    def begin(self, name: str, structure: dict[str, Any]) -> Request:
        if "grammar" in structure:
            structure = {"grammar": write_client_grammar(structure["grammar"])}
        return self.ask(name, structure, MAX_TOKENS)


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[Engine]:
    with installed_plugin():
        yield Engine(smollm2_path, max_model_len=2048)


def some_token(row: Row, random: Random) -> int:
    tokens = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    others = tokens[tokens != EOS]
    return int(random.choice(others)) if others.size else EOS


def write_to_the_end(engine: Engine, request: Request, seed: int = 0) -> tuple[bool, float]:
    """Write what may come, at random; return whether nothing was refused, and the longest step in seconds."""
    name, random, longest, goes_on = request.request_id, Random(seed), 0.0, True
    while name in engine.requests and len(request.output_token_ids) < MAX_TOKENS:
        before = time.monotonic()
        row = engine.masks()[name]
        longest = max(longest, time.monotonic() - before)
        goes_on = engine.write(name, some_token(row, random))
    engine.requests.pop(name, None)
    return goes_on, longest


@pytest.mark.fault(68)
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.stress), 8])
@pytest.mark.parametrize("beginning", ["", BEGINNING])
def test_what_explodes_ends_as_an_error_after_a_second_at_most(engine: Engine, beginning: str, every: int) -> None:
    num_ended, longest = 0, 0.0
    for number, structure in enumerate(islice(explosive(beginning), 0, None, every)):
        request = engine.begin(f"{number}", structure)
        before = time.monotonic()
        goes_on, step_s = write_to_the_end(engine, request)
        took_s = time.monotonic() - before
        print(f"{len(request.output_token_ids)} tokens, {took_s:.2f} s, {step_s:.3f} s: {structure}")
        longest = max(longest, step_s)
        num_ended += not goes_on
        assert goes_on or request.stop_reason == ENDED
        # 1 s and 2 ms for each token, and what the test itself takes.
        assert took_s < 10, structure
    assert num_ended >= 20 / every
    assert longest < 1


@pytest.mark.fault(68)
@pytest.mark.parametrize("structure", [*sharp(""), *HIDDEN.values()])
def test_one_mask_that_takes_seconds_keeps_nobody_waiting(engine: Engine, structure: dict[str, str]) -> None:
    hostile, ordinary = engine.begin("hostile", structure), engine.begin("ordinary", ORDINARY["prose"])
    random, longest = Random(1), 0.0
    letters = [engine.tokenizer.encode(letter)[0] for letter in "abcdefgh"]
    while "hostile" in engine.requests:
        before = time.monotonic()
        masks = engine.masks()
        longest = max(longest, time.monotonic() - before)
        bits = np.unpackbits(masks["hostile"].view(np.uint8), bitorder="little")
        engine.write("hostile", random.choice([token for token in letters if bits[token]] or [EOS]))
        engine.write("ordinary", some_token(masks["ordinary"], random))
    print(f"{longest:.3f} s: {structure}")
    assert hostile.stop_reason == ENDED
    assert ordinary.stop_reason is None
    # 0.05 s of the processor's, on a busy machine.
    assert longest < 0.5
    engine.requests.clear()


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_ones_are_never_ended(engine: Engine, name: str) -> None:
    request = engine.begin(name, ORDINARY[name])
    assert name in engine.requests
    goes_on, _ = write_to_the_end(engine, request)
    assert goes_on, engine.tokenizer.decode(request.output_token_ids)
    assert request.stop_reason is None


def test_eight_that_explode_end_beside_ordinary_ones_which_go_on(engine: Engine) -> None:
    hostile = [engine.begin(f"hostile {i}", {"regex": "(([a-z ]*)*)*"}) for i in range(8)]
    ordinary = [engine.begin(f"ordinary {name}", structure) for name, structure in ORDINARY.items()]
    random, longest, took = Random(3), 0.0, 0.0
    for _ in range(100):
        before = time.monotonic()
        masks = engine.masks()
        longest = max(longest, time.monotonic() - before)
        took += time.monotonic() - before
        for name, row in masks.items():
            engine.write(name, some_token(row, random))
    ended = [request.request_id for request in hostile + ordinary if request.stop_reason == ENDED]
    print(f"{longest:.3f} s in one step, {took:.2f} s in all")
    assert ended == [request.request_id for request in hostile]
    assert longest < 0.5
    engine.requests.clear()


def test_drafts_of_one_that_is_ended_while_they_are_masked_end_no_engine(engine: Engine) -> None:
    request = engine.begin("drafted", {"regex": "((([a-z ]*)*)*)*"})
    structured = request.structured_output_request
    assert structured is not None
    [token] = engine.tokenizer.encode(" the")
    # vLLM keeps room for as many states as it drafts tokens, and none are drafted here.
    for number in range(200):
        assert number < 150, "it was not ended"
        engine.masks()
        if not engine.write("drafted", token):
            break
        engine.masks({"drafted": []})
    assert request.stop_reason == ENDED
    assert structured.grammar.validate_tokens([token]) == []
    structured.grammar.rollback(1)


def test_what_the_library_gives_up_is_no_end(engine: Engine) -> None:
    # llguidance allows nothing but a stop where it reaches a limit of its own.
    request = engine.begin("lark", {"grammar": "start: e\ne: e e | /[a-z ]/"})
    goes_on, _ = write_to_the_end(engine, request)
    assert not goes_on
    assert request.stop_reason == ENDED
    assert len(request.output_token_ids) > 1
