"""What clients see while parts of one service are killed, in this order: vocabulary, ingress, controller, engine; and
when it is told to end while streams run.

Bounds are five times what was measured, or what the service promises.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import psutil
import pytest

from tests.checker import assert_only_listed_words, unlisted_words
from tests.e2e.own_engine import short_lists
from tests.e2e.processes import processes_named
from tests.e2e.service import KEY, MODEL, running
from tests.harness import Demo

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DRAIN_S: Final = 15
AT_ONCE_S: Final = 8.0
"""Measured: under a second, on two cores that others use too."""
BACK_S: Final = 300.0
"""Another process starts in 10 to 20 s, and in 90 s where six others start at once."""
NUM_CHECKS: Final = 50
"""Of readiness, in ten seconds: the controller checks each second, and another vocabulary starts in more than that."""
SHORT: Final = 40
LONG: Final = 1900
"""Tokens: some of what an engine writes within ``DRAIN_S``, and more than it."""
NUM_STREAMS: Final = 10

KNOWN: Final[dict[str, Any]] = {"lang": "en", "n_words": 500}
INVENTED: Final = tuple(
    map("".join, product(("blor", "zan", "quim", "trel"), ("vi", "ko", "pu"), ("shen", "dax", "mur")))
)
TAKEN_BACK: Final[dict[str, Any]] = {"lang": "en", "words": INVENTED, "punctuation": "none", "rescue": 0.5}
"""Words of several tokens that no model means, so that many are taken back before they are written."""
NUMBERS: Final = count()


class World(NamedTuple):
    demo: Demo
    client: httpx2.Client

    def kill(self, name: str) -> None:
        for pid in processes_named(name, self.demo.processes()):
            os.kill(pid, signal.SIGKILL)

    def chat(self, vocab: dict[str, Any] | None, **fields: Any) -> httpx2.Response:
        return self.client.post("/v1/chat/completions", json=body(vocab, max_tokens=4, **fields))

    def readiness(self, num_times: int) -> tuple[set[int], float]:
        """What ``/ready`` says five times a second, and what the slowest answer took."""
        slowest, statuses = 0.0, set[int]()
        for _ in range(num_times):
            took_s, answer = timed(lambda: self.client.get("/ready"))
            statuses.add(answer.status_code)
            slowest = max(slowest, took_s)
            time.sleep(0.2)
        return statuses, slowest

    def wait_until_good(self) -> None:
        """Until all kinds of requests are answered, also new ones for the vocabulary."""
        end = time.monotonic() + BACK_S
        while time.monotonic() < end:
            with suppress(httpx2.TransportError):
                if self.client.get("/ready").status_code == self.chat(new_list()).status_code == 200:
                    return
            time.sleep(0.5)
        raise AssertionError("the service is not back")


def body(vocab: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    made = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me of a dog."}], **fields}
    return made if vocab is None else made | {"vocab": vocab}


def new_list() -> dict[str, Any]:
    return {"words": ["the", "dog", "w" + "".join("abcdefghij"[int(digit)] for digit in str(next(NUMBERS)))]}


@pytest.fixture(scope="module")
def world(shallow_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("lifecycle")
    args = {
        "wordlist_dir": str(short_lists(folder / "lists", "en")),
        "drain_s": DRAIN_S,
        "limits": {"max_input_tokens": 128, "max_new_tokens": LONG},
    }
    demo = Demo(str(shallow_path), folder, args)
    headers = {"Authorization": f"Bearer {KEY}"}
    limits = httpx2.Limits(max_keepalive_connections=0)
    with (
        running(demo) as service,
        httpx2.Client(base_url=service.url, headers=headers, timeout=90, limits=limits) as client,
    ):
        yield World(demo, client)


def timed(ask: Callable[[], httpx2.Response]) -> tuple[float, httpx2.Response]:
    start = time.monotonic()
    answer = ask()
    return time.monotonic() - start, answer


def assert_may_come_back(answer: httpx2.Response) -> None:
    # 502 where the ingress that had the request ended.
    assert answer.status_code in (502, 503), answer.text
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["code"] == "overloaded"


class Streamed(NamedTuple):
    """What one stream was: its text, its last event, and how long it took."""

    text: str
    last: str
    took_s: float

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.last.removeprefix("data: "))["error"]
        return error


def stream(world: World, num_tokens: int, began: list[int], vocab: dict[str, Any], **fields: Any) -> Streamed:
    start, text, last = time.monotonic(), "", ""
    asked = body(vocab, stream=True, max_tokens=num_tokens, min_tokens=num_tokens, **fields)
    with suppress(httpx2.TransportError), world.client.stream("POST", "/v1/chat/completions", json=asked) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if not last:
                began.append(num_tokens)
            last = line or last
            if line.startswith("data: {"):
                for choice in json.loads(line.removeprefix("data: ")).get("choices", []):
                    text += choice["delta"].get("content") or ""
    return Streamed(text, last, time.monotonic() - start)


def start_streams(
    world: World, pool: ThreadPoolExecutor, lengths: list[int], vocab: dict[str, Any] = KNOWN, **fields: Any
) -> list[Future[Streamed]]:
    """Streams that have begun."""
    began: list[int] = []
    streams = [pool.submit(stream, world, length, began, vocab, **fields) for length in lengths]
    end = time.monotonic() + 60
    while len(began) < len(lengths) and time.monotonic() < end:
        time.sleep(0.05)
    assert len(began) == len(lengths)
    return streams


def test_nobody_waits_for_a_vocabulary_that_was_killed(world: World) -> None:
    assert world.chat(KNOWN).status_code == 200
    world.kill("ray::ServeReplica:wordbound:Vocabulary")
    known = [timed(lambda: world.chat(KNOWN)) for _ in range(3)]
    others = [timed(lambda: world.chat(new_list())), timed(lambda: world.client.get("/v1/vocabularies"))]
    free = timed(lambda: world.chat(None))
    assert [answer.status_code for _, answer in (*known, free)] == [200] * 4
    for _, answer in others:
        assert_may_come_back(answer)
    assert max(took_s for took_s, _ in (*known, *others, free)) < AT_ONCE_S
    # Away for real: the controller finds it dead at one of its next checks.
    assert any(503 in world.readiness(1)[0] for _ in range(NUM_CHECKS))
    world.wait_until_good()


@pytest.mark.fault(71, 74)
def test_a_stream_of_an_ingress_that_was_killed_ends_and_others_are_soon_served(world: World) -> None:
    with ThreadPoolExecutor(2) as pool:
        [streamed] = start_streams(world, pool, [LONG])
        world.kill("ray::ServeReplica:wordbound:Ingress")
        refused = [timed(lambda: world.chat(KNOWN)), timed(lambda: world.client.get("/ready"))]
        assert "[DONE]" not in streamed.result(AT_ONCE_S).last
    for took_s, answer in refused:
        assert_may_come_back(answer)
        assert took_s < AT_ONCE_S
    world.wait_until_good()


@pytest.mark.fault(74)
def test_only_a_process_that_another_takes_the_place_of_is_ended_where_memory_is_short(world: World) -> None:
    """The kernel ends what has the largest score: workers of Ray, their engines and compilers, and not Ray itself."""
    programs = {pid: psutil.Process(pid).cmdline()[0] for pid in world.demo.processes()}

    def scores(name: str) -> set[int]:
        return {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid, one in programs.items() if name in one}

    assert scores("/raylet") == scores("/gcs_server") == {0}
    # Not "ray::" alone, as two agents of Ray are called too.
    assert all(scores(name) == {1000} for name in ("ray::ServeReplica", "ray::ServeController", "VLLM::"))
    [raylet] = [pid for pid, program in programs.items() if program.endswith("/raylet")]
    assert b"RAY_memory_monitor_refresh_ms=0" in Path(f"/proc/{raylet}/environ").read_bytes().split(b"\0")


@pytest.mark.fault(44)
def test_a_service_whose_controller_was_killed_is_ready_all_along(world: World) -> None:
    world.kill("ray::ServeController")
    statuses, slowest = world.readiness(75)
    assert statuses == {200}
    assert slowest < 4
    assert world.chat(KNOWN).status_code == 200
    world.wait_until_good()


def test_an_engine_that_is_killed_while_words_are_taken_back_leaves_whole_words_that_came_once(world: World) -> None:
    # Each word has three tokens or more: two words that come twice were sent twice.
    fields = {"temperature": 1, "no_repeat_ngram_size": 6}

    def written() -> None:
        answer = world.client.post("/v1/chat/completions", json=body(TAKEN_BACK, max_tokens=SHORT, **fields))
        assert answer.status_code == 200, answer.text
        made = answer.json()
        assert made["vocab"]["rescue"]["num_words"] > 2
        assert_only_listed_words(made["choices"][0]["message"]["content"], "en", len(INVENTED), INVENTED)

    written()
    with ThreadPoolExecutor(NUM_STREAMS + 2) as pool:
        streams = start_streams(world, pool, [LONG] * NUM_STREAMS, TAKEN_BACK, **fields)
        asked = body(TAKEN_BACK, max_tokens=LONG, min_tokens=LONG, **fields)
        whole = [pool.submit(world.client.post, "/v1/chat/completions", json=asked) for _ in range(2)]
        time.sleep(5)
        world.kill("VLLM::EngineCore")
        ended = [one.result(AT_ONCE_S) for one in streams]
        refused = [one.result(AT_ONCE_S) for one in whole]
    for one in ended:
        assert one.error["code"] == "engine_dead", one.last
        assert unlisted_words(one.text, "en", len(INVENTED), INVENTED) == []
        pairs = [pair for pair in pairwise(one.text.split(" ")[1:]) if all(map(str.isalpha, pair))]
        assert len(pairs) == len(set(pairs)) > 5, one.text
    for answer in refused:
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_dead")
    world.wait_until_good()
    written()


@pytest.mark.fault(39)
def test_an_end_refuses_what_comes_and_lets_streams_finish_or_tells_them(world: World) -> None:
    with ThreadPoolExecutor(NUM_STREAMS) as pool:
        streams = start_streams(world, pool, [SHORT, LONG] * (NUM_STREAMS // 2))
        world.demo.send_signal(signal.SIGTERM)
        told_at = time.monotonic()
        time.sleep(2)
        refused = [world.chat(None), world.chat(KNOWN), world.client.get("/ready"), world.client.get("/v1/models")]
        for answer in refused:
            assert_may_come_back(answer)
        ended = [one.result(DRAIN_S + 30) for one in streams]
        told_s = time.monotonic() - told_at
    for short, long in zip(ended[::2], ended[1::2], strict=True):
        assert short.last == "data: [DONE]"
        assert long.error["code"] == "overloaded"
    assert DRAIN_S - 2 < told_s < DRAIN_S + 20
    world.demo.wait(60)
    end = time.monotonic() + 10
    while world.demo.processes() and time.monotonic() < end:
        time.sleep(0.2)
    assert not world.demo.processes(), "a process outlived the service"
