"""Words that are taken back in vLLM's own scheduler, over the KV cache of ``test_kv_fork``: no slot is ever of a token
that was taken back, no client gets one, and what it gets is what the scheduler has. And in an engine with a model."""

import json
import math
import random
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vllm import SamplingParams
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import LogprobsLists, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from tests.e2e.own_engine import run_program, save_short_list
from tests.inner.vllm_plugin.retrying_engine import MAX_TOKENS, NUM_REQUESTS, OF_A_TEXT
from tests.vocab.vllm_plugin.test_kv_fork import BLOCK_SIZE, FULL, NUM_TOKENS, PROMPT, WINDOW, EngineWorld
from vocab.automaton.tokenizer import load_speller
from vocab.decoding.retry import Draw
from vocab.matching.log_mass import NUM_REFUSED, REFUSED_AT, mark, pack
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.vllm_plugin.retrying import RETRYING, Retries, _texts, retry_args


class Grammar(StructuredOutputGrammar):
    """Allows everything; its retry takes words back at random."""

    def __init__(self, seed: int) -> None:
        self.retry = Retry(seed)
        self.accepted: list[int] = []

    def begin_retry(self, share: float, budget: int, wanted: Collection[int], *, has_ending: bool) -> "Retry":
        assert (share, budget, has_ending) == (0.05, 30, False)
        self.retry.grammar = self
        return self.retry

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        del request_id
        self.accepted += tokens
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        return tokens

    def rollback(self, num_tokens: int) -> None:
        del self.accepted[len(self.accepted) - num_tokens :]

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None: ...

    def is_terminated(self) -> bool:
        return False

    def reset(self) -> None: ...


class Retry:
    """Words of one to six tokens, of which some are taken back."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.num_words = self.num_tokens = self.num_open = 0
        self.num_left = None
        self.draws: list[Draw] = []
        self.grammar: Grammar

    def take_back(self, draw: Draw) -> int | None:
        self.draws.append(draw)
        if self.num_tokens > 20 or self.random.random() > 0.3:
            return None
        self.grammar.rollback(self.num_open)
        lost, self.num_open = self.num_open, 0
        self.num_words += 1
        self.num_tokens += lost + 1
        return lost

    def advance(self, draw: Draw) -> None:
        assert draw is self.draws[-1] or draw.log_p == draw.log_mass == 0
        self.num_open = self.num_open + 1 if self.num_open < 6 and self.random.random() < 0.8 else 0


class World(EngineWorld):
    """Requests with grammars, whose draws differ each time that a place is drawn.

    Attributes:
        got: The tokens that the client of each request got, and its log probabilities.
        reports: What was reported with the last of them.
        scheduled: How many tokens of each request the last step computed.
    """

    def __init__(self, model: Path, **fields: Any) -> None:
        super().__init__(model, **fields)
        self.grammars: dict[str, Grammar] = {}
        self.got: dict[str, list[int]] = {}
        self.log_p: dict[str, list[float]] = {}
        self.reports: dict[str, Retries | None] = {}
        self.scheduled: dict[str, int] = {}
        self._num_drawn = 0

    def begin(self, name: str, seed: int, *, logprobs: int | None = None, group: str = "") -> None:
        """Add a request whose words are taken back."""
        params = SamplingParams(max_tokens=30, logprobs=logprobs, extra_args=retry_args(0.05, group or name))
        request = Request(name, PROMPT, params, None, block_hasher=self._hasher)
        self.grammars[name] = Grammar(seed)
        request.structured_output_request = SimpleNamespace(
            grammar=self.grammars[name], reasoning_ended=None, reasoning_end_token_index=None
        )
        self.requests[name], self.tokens[name], self.got[name], self.log_p[name] = request, [*PROMPT], [], []
        self.scheduler.add_request(request)
        assert params.logprobs == logprobs, "the parameters are those of others, too"

    def step(self) -> None:
        output = self.scheduler.schedule()
        self.scheduled = output.num_scheduled_tokens
        self.num_steps += 1
        self._in_flight.append((output, self._execute(output)))
        while len(self._in_flight) > (self._depth if output.total_num_scheduled_tokens else 0):
            self._deliver(self.scheduler.update_from_output(*self._in_flight.popleft()))

    def _deliver(self, found: dict[int, Any]) -> None:
        for outputs in found.values():
            for one in outputs.outputs:
                assert one.new_token_ids or one.finished
                self.got.setdefault(one.request_id, []).extend(one.new_token_ids)
                if one.new_logprobs is not None:
                    assert one.new_logprobs.logprob_token_ids[:, 0].tolist() == one.new_token_ids
                    self.log_p[one.request_id] += one.new_logprobs.logprobs[:, -1].tolist()
                self.reports[one.request_id] = Retries.of(one.kv_transfer_params)

    def _execute(self, output: Any) -> ModelRunnerOutput:
        # As vLLM's first runner learns of tokens that were discarded; the second one makes such a request anew.
        cached = output.scheduled_cached_reqs
        for name, num_output in zip(cached.req_ids, cached.num_output_tokens, strict=True):
            if name in cached.all_token_ids:
                self.tokens[name] = [*cached.all_token_ids[name]]
            del self.tokens[name][len(PROMPT) + num_output :]
        done = super()._execute(output)
        tokens = [row[0] if row else 0 for row in done.sampled_token_ids]
        columns = [[self.requests[name].sampling_params.logprobs or 0 for name in done.req_ids]]
        width = max((1 + number for number in columns[0]), default=1)
        ids, log_p = np.zeros((len(tokens), width), dtype=np.int32), np.full((len(tokens), width), -0.5)
        ids[:, 0] = tokens
        for row, name in enumerate(done.req_ids):
            at = (self.requests[name].sampling_params.extra_args or {}).get(REFUSED_AT)
            if at is not None:
                ids[row, at : at + NUM_REFUSED] = 90 + np.arange(NUM_REFUSED)
                log_p[row, at : at + NUM_REFUSED] = [mark(-0.25), -1.0, mark(-2.0), -3.0]
        ranks = np.full(len(tokens), pack(-0.75, -1.0))
        return replace(done, logprobs=LogprobsLists(ids, log_p, ranks))

    def _sample(self, name: str, end: int) -> list[int]:
        tokens = self.tokens[name]
        found = super()._sample(name, end)
        if not found:
            return found
        self._num_drawn += 1
        token = (found[0] + self._num_drawn) % NUM_TOKENS
        if end == len(tokens) - 1:
            tokens[-1] = token
        return [token]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("add_request", "update_from_output"):
        monkeypatch.setattr(Scheduler, name, getattr(Scheduler, name))
    assert RETRYING.install()


CASES = pytest.mark.parametrize(
    "fields",
    [{}, {"is_async": True}, {"groups": (FULL, WINDOW)}, {"num_blocks": 14}, {"num_blocks": 14, "is_async": True}],
    ids=["in its place", "with a step in flight", "preempted, for blocks may be freed", "short of memory", "all of it"],
)


@CASES
@pytest.mark.parametrize("seed", range(6))
def test_what_is_taken_back_is_nowhere_and_what_stays_comes_once(
    smollm2_path: Path, fields: dict[str, Any], seed: int
) -> None:
    engine = World(smollm2_path, **fields)
    names = [f"{seed} {number}" for number in range(4)]
    for number, name in enumerate(names):
        engine.begin(name, seed * 10 + number, logprobs=(None, 0, 2, None)[number], group="ab"[number % 2])
        engine.step()
    engine.add("plain", PROMPT, max_tokens=30)
    engine.run()
    assert len(engine.got["plain"]) == 30
    num_lost = dict.fromkeys("ab", 0)
    for number, name in enumerate(names):
        request, grammar = engine.requests[name], engine.grammars[name]
        assert engine.got[name] == list(request.output_token_ids) == grammar.accepted, name
        assert list(request.all_token_ids) == [*PROMPT, *engine.got[name]]
        assert len(request.block_hashes) == request.num_tokens // BLOCK_SIZE
        assert len(engine.got[name]) == 30
        assert grammar.retry.num_words > 0
        num_lost["ab"[number % 2]] += grammar.retry.num_tokens
        for draw in grammar.retry.draws:
            assert (draw.log_p, draw.log_mass) == (-0.5, -0.75)
            assert [token for token, _ in draw.refused] == [90, 92]
            assert [token for token, _ in draw.allowed] == [91, 93]
            assert [math.log(p) for _, p in draw.refused] == pytest.approx([-0.25, -2.0])
        assert engine.log_p[name] == ([] if number in (0, 3) else [-0.5] * 30)
    for group in "ab":
        reports = [engine.reports[name] for number, name in enumerate(names) if "ab"[number % 2] == group]
        assert max(one.num_tokens for one in reports if one is not None) == num_lost[group]
    assert not _texts[engine.scheduler], "what ended is forgotten"
    # What is in the prefix cache is what its name says.
    for name in names:
        engine.ask(f"again {name}", list(engine.requests[name].all_token_ids))
    assert engine.pool.get_num_free_blocks() == engine.pool.num_gpu_blocks - 1


def test_in_its_place_a_request_computes_one_token_more_for_each_word(smollm2_path: Path) -> None:
    engine = World(smollm2_path)
    engine.begin("one", 5)
    engine.run()
    request, retry = engine.requests["one"], engine.grammars["one"].retry
    # A word that began in an earlier block costs that block.
    num_steps = len(PROMPT) + 29 + retry.num_tokens
    assert num_steps <= engine.num_computed["one"] <= num_steps + request.num_preemptions * BLOCK_SIZE
    assert request.num_preemptions < retry.num_words


def test_of_256_texts_none_waits_for_those_of_which_words_are_taken_back(smollm2_path: Path) -> None:
    engine = World(smollm2_path, num_blocks=256 * 10 + 1, max_num_seqs=256)
    names, plain = [f"{number}" for number in range(192)], [f"plain {number}" for number in range(64)]
    for number, name in enumerate(names):
        engine.begin(name, number)
    for name in plain:
        engine.add(name, PROMPT, max_tokens=30)
    scheduler, blocks = engine.scheduler, engine.scheduler.kv_cache_manager
    num_together = list[int]()
    while scheduler.has_unfinished_requests():
        unfinished = {name for name, request in engine.requests.items() if not request.is_finished()}
        num_words = sum(grammar.retry.num_words for grammar in engine.grammars.values())
        engine.step()
        # Also where a word's blocks would not stay right, and its request is preempted.
        assert engine.scheduled.keys() == unfinished
        assert engine.num_steps == 1 or all(engine.scheduled[name] == 1 for name in unfinished & {*plain})
        num_together.append(sum(grammar.retry.num_words for grammar in engine.grammars.values()) - num_words)
        held = {request.request_id: blocks.get_block_ids(request.request_id)[0] for request in scheduler.running}
        for request in scheduler.running:
            assert request.num_computed_tokens == request.num_tokens - 1
            assert len(held[request.request_id]) - request.num_computed_tokens // BLOCK_SIZE in (0, 1)
        assert engine.num_used_blocks == len({block for each in held.values() for block in each})
        assert len(_texts[scheduler]) == sum(name in scheduler.requests for name in names)
    assert max(num_together) > 32
    assert engine.num_used_blocks == 0
    for name in names:
        assert engine.got[name] == list(engine.requests[name].output_token_ids) == engine.grammars[name].accepted
    # None of another's steps is repeated, and of the prompts all but the first one's have blocks that are cached.
    assert {engine.num_computed[name] for name in plain} == {len(PROMPT) % BLOCK_SIZE + 29}


def test_a_request_that_ends_in_an_open_word_gives_all_of_it(smollm2_path: Path) -> None:
    engine = World(smollm2_path)
    engine.begin("aborted", 1)
    engine.begin("other", 2)
    for _ in range(8):
        engine.step()
    engine.abort("aborted")
    engine.run()
    assert engine.got["other"] == list(engine.requests["other"].output_token_ids)
    # What it had not got stays open.
    assert engine.got["aborted"] == list(engine.requests["aborted"].output_token_ids)[: len(engine.got["aborted"])]


@pytest.mark.stress
def test_an_engine_holds_nothing_of_texts_that_ended_however_they_did(shallow_path: Path, tmp_path: Path) -> None:
    words = save_short_list(tmp_path, load_speller(str(shallow_path)))
    grammar = GrammarReference(words.digest, ListOptions(), 1000, MAX_TOKENS).to_ebnf()
    results = tmp_path / "results.json"
    run_program(
        "tests.inner.vllm_plugin.retrying_engine", str(shallow_path), str(tmp_path), grammar, str(results),
        log=tmp_path / "engine.log", artefacts=tmp_path, timeout_s=1800,
    )  # fmt: skip
    found = json.loads(results.read_text())
    assert sum(found["ends"].values()) == NUM_REQUESTS
    assert min(found["ends"][ended] for ended in ("finished", "closed", "cancelled")) > 10
    assert found["num_words"] > 100
    assert found["num_preempted"] > 0
    assert found["num_unfinished"] == 0
    for held in found["held"]:
        assert {name: held[name] for name in ("texts", *OF_A_TEXT)} == dict.fromkeys(("texts", *OF_A_TEXT), 0)
