"""Which replica gets a request."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from ray.serve._private.common import DeploymentHandleSource, DeploymentID, ReplicaID
from ray.serve._private.request_router.common import PendingRequest

from deployments.contract import Caller, Decoding, TextRequest
from deployments.request_router import NUM_SEQUENCES, PREFIX_CHARS, STALLED, ReplicaRouter, prompt_prefix

DEPLOYMENT = DeploymentID("Replica", "wordbound")


@dataclass
class Running:
    """A replica as a router sees it."""

    replica_id: ReplicaID
    routing_stats: dict[str, Any] = field(default_factory=dict)
    max_ongoing_requests: int = 100


def replicas(number: int) -> list[Any]:
    return [Running(ReplicaID(f"replica{one}", DEPLOYMENT)) for one in range(number)]


@pytest.fixture
async def router() -> ReplicaRouter:
    return ReplicaRouter(DEPLOYMENT, DeploymentHandleSource.REPLICA, use_replica_queue_len_cache=True)


def chat(*contents: str, owner: str = "a") -> TextRequest:
    messages = [{"role": "user", "content": content} for content in contents]
    return TextRequest({"messages": messages}, None, Decoding(), Caller(owner, "r-1"))


async def first_choice(router: ReplicaRouter, candidates: list[Any], *arguments: Any) -> list[Any]:
    request: Any = PendingRequest(args=list(arguments), kwargs={}, metadata=None)
    [first, *_] = await router.choose_replicas(candidates, request)
    # Else Serve's router would ask again and again without a rest.
    assert request.routing_context.should_backoff
    return first


async def test_prompts_that_begin_alike_prefer_one_replica(router: ReplicaRouter) -> None:
    candidates = replicas(4)
    beginning = "Tell me of a dog. " * 100
    chosen = [await first_choice(router, candidates, chat(beginning + str(turn), "And?" * turn)) for turn in range(10)]
    assert all(one == chosen[0] and len(one) == 1 for one in chosen)


async def test_prompts_are_spread_over_all_replicas_and_most_stay_where_one_goes(router: ReplicaRouter) -> None:
    candidates = replicas(4)
    requests = [chat(f"Question {number}") for number in range(400)]
    before = [(await first_choice(router, candidates, request))[0] for request in requests]
    assert min(Counter(one.replica_id for one in before).values()) > 60
    after = [(await first_choice(router, candidates[1:], request))[0] for request in requests]
    assert all(new is old for new, old in zip(after, before, strict=True) if old is not candidates[0])


async def test_where_the_preferred_one_is_busy_the_less_busy_of_two_is_taken(router: ReplicaRouter) -> None:
    candidates = replicas(2)
    [preferred] = await first_choice(router, candidates, chat("Hello"))
    router.on_new_queue_len_info(preferred.replica_id, 8)
    assert await first_choice(router, candidates, chat("Hello")) == [preferred]
    router.on_new_queue_len_info(preferred.replica_id, 9)
    assert len(await first_choice(router, candidates, chat("Hello"))) == 2


class Result:
    """The answer of a replica, as Serve's router has it."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def end(self) -> None:
        for callback in self._callbacks:
            callback(self)


async def test_a_replica_full_of_few_requests_gets_no_others_beside_an_idle_one(router: ReplicaRouter) -> None:
    candidates = replicas(2)
    full, results = candidates[0], list[Result]()
    wide: list[tuple[dict[str, Any], Decoding]] = [
        ({"n": 8}, Decoding()),
        ({}, Decoding(num_beams=8)),
        ({"n": 2}, Decoding(best_of=8)),
        ({}, Decoding(search_width=8)),
    ]
    for body, decoding in wide:
        request = TextRequest({"messages": [], **body}, None, decoding, Caller("a", "r-1"))
        assert request.num_sequences == 8
        pending: Any = PendingRequest(args=[request], kwargs={}, metadata=None)
        results.append(Result())
        router.on_send_request(full.replica_id)
        router.on_request_routed(pending, full.replica_id, cast("Any", results[-1]))

    async def num_to_full_one() -> int:
        chats = [chat(f"Question {number}", owner="b") for number in range(200)]
        return sum([await first_choice(router, candidates, one) == [full] for one in chats])

    assert await num_to_full_one() == 0
    for result in results:
        result.end()
    await asyncio.sleep(0)
    assert await num_to_full_one() > 60


async def test_what_other_processes_sent_counts_as_the_replica_says(router: ReplicaRouter) -> None:
    candidates = replicas(2)
    [preferred] = await first_choice(router, candidates, chat("Hello"))
    preferred.routing_stats = {NUM_SEQUENCES: 64}
    assert len(await first_choice(router, candidates, chat("Hello"))) == 2
    assert await first_choice(router, candidates, {"body": "a line"}) != [preferred]


@pytest.mark.fault(43)
async def test_a_replica_whose_engine_stands_still_gets_nothing_while_others_run(router: ReplicaRouter) -> None:
    candidates = replicas(3)
    candidates[0].routing_stats = candidates[1].routing_stats = {STALLED: True}
    for number in range(20):
        assert await first_choice(router, candidates, chat(str(number))) == [candidates[2]]
    candidates[2].routing_stats = {STALLED: True}
    assert len(await first_choice(router, candidates, {"body": "a line"})) == 2
    # One replica is chosen without more ado.
    assert await router.choose_replicas(candidates[:1], None) == [candidates[:1]]


def test_what_prompts_have_in_common() -> None:
    for one, other, alike in (
        (chat("Hello"), chat("Hello", owner="b"), False),
        (chat("Hello"), chat("Hello", "More"), False),
        (chat("a" * PREFIX_CHARS, "b"), chat("a" * PREFIX_CHARS, "c"), True),
        (chat("a", "b"), chat("ab"), False),
        (chat("\ud800"), chat("\ud800"), True),
    ):
        assert (prompt_prefix([one]) == prompt_prefix([other])) is alike
    # A completion has its prompt, and others have none.
    completion = TextRequest({"prompt": "Once upon"}, None, Decoding(), Caller("a", "r-1"))
    assert prompt_prefix([completion]) == b"a\0Once upon"
    assert prompt_prefix([]) is prompt_prefix([{"body": "{}"}]) is None
