"""A batch of 150 lines while replica, batch worker and the whole service are killed, and started again.

Who asks beside it is told where there is no engine, and after a restart of the service no list is compiled again. Under
``make stress`` each of them is killed at each of the three moments.
"""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import openai
import pytest

from tests.e2e.batch_lines import Sent, assert_accounted, lines
from tests.e2e.own_engine import short_lists
from tests.e2e.processes import processes_named
from tests.e2e.service import MODEL, Service, running
from tests.e2e.test_batches import read, start
from tests.harness import Demo

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Victim = Literal["replica", "worker", "service"]

VICTIMS: tuple[Victim, ...] = ("replica", "worker", "service")
PLANS = [
    ("replica", "worker", "service"),
    *(pytest.param((victim,) * 3, marks=pytest.mark.stress) for victim in VICTIMS),
]

MOMENTS = (0.1, 0.5, 0.9)
NUM_LINES = 150
NUM_REFUSED = 5
TIMEOUT_S = 1500

NAMES: dict[str, str] = {
    "replica": "ray::ServeReplica:wordbound:Replica",
    "worker": "ray::ServeReplica:wordbound:Batches",
}


QUESTIONS = (
    {"lang": "nl", "n_words": 400},
    {"words": ["river", "stone", "lamp"], "extra_words": ["Ana"], "numbers": True},
    {"words": ["river", "stone", "lamp"], "exclude_words": ["stone"], "end": "sentence"},
)


@dataclass(frozen=True)
class Story:
    """What was sent and what came of it, and of each start of the service the lists used and how many it compiled."""

    sent: list[Sent]
    batch: openai.types.Batch
    output: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    lists: list[list[str]]
    num_compiles: list[int]
    refusals: list[openai.APIStatusError]


@pytest.fixture(scope="module", params=PLANS, ids="-".join)
def story(request: pytest.FixtureRequest, shallow_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    plan: tuple[Victim, Victim, Victim] = request.param
    folder = tmp_path_factory.mktemp("kills")
    args = {
        "batch": {"state_dir": str(folder / "state"), "lines_in_flight": 16},
        "artefact_dir": str(folder / "artefacts"),
        "wordlist_dir": str(short_lists(folder / "lists", "en", "es", "nl")),
        "prebuild_langs": ["nl"],
    }
    sent = lines(NUM_LINES)
    num_good = sum(line.fault is None for line in sent)
    victims = list(zip(MOMENTS, plan, strict=True))
    batch_id = ""
    lists: list[list[str]] = []
    num_compiles: list[int] = []
    for run in range(1 + plan.count("service")):
        demo = Demo(str(shallow_path), folder / f"run-{run}", args)
        with running(demo, timeout_s=60) as service:
            answers = [service.ask("Hello", vocab, max_tokens=9) for vocab in QUESTIONS]
            lists.append([(answer.vocab or {})["id"] for answer in answers])
            batch_id = batch_id or start(service, b"\n".join(line.text for line in sent)).id
            while victims:
                moment, victim = victims.pop(0)
                wait_for(service, batch_id, int(moment * num_good))
                num_compiles[run:] = [service.num_compiles(at_least=0 if run else 1)]
                kill(demo, victim)
                if victim == "service":
                    break
            else:
                batch = wait_for(service, batch_id, None)
                output, errors = read(service, batch.output_file_id), read(service, batch.error_file_id)
                num_compiles[run:] = [service.num_compiles(at_least=0 if run else 1)]
                refusals = ask_a_dead_engine(service, demo)
    return Story(sent, batch, output, errors, lists, num_compiles, refusals)


@pytest.mark.fault(52)
def test_every_line_ends_in_one_file_whatever_is_killed(story: Story) -> None:
    assert story.batch.request_counts is not None
    assert story.batch.request_counts.total == NUM_LINES
    assert_accounted(story.sent, story.output, story.errors)


def test_a_restarted_service_compiles_nothing(story: Story) -> None:
    assert all(lists == story.lists[0] for lists in story.lists)
    first, *later = story.num_compiles
    assert first > 0
    assert later == [0] * len(later)


@pytest.mark.fault(42, 60)
def test_nobody_waits_for_a_dead_engine(story: Story) -> None:
    """Another takes a minute to start; each is answered before, and told when to come back."""
    assert len(story.refusals) == NUM_REFUSED
    for refusal in story.refusals:
        assert refusal.status_code == 503
        assert refusal.code in ("engine_dead", "overloaded")
        assert int(refusal.response.headers["retry-after"]) > 0


def ask_a_dead_engine(service: Service, demo: Demo) -> list[openai.APIStatusError]:
    [engine] = processes_named("VLLM::EngineCore", demo.processes())
    os.kill(engine, signal.SIGKILL)
    client = service.client.with_options(max_retries=0, timeout=10)
    refusals = []
    for _ in range(NUM_REFUSED):
        with pytest.raises(openai.InternalServerError) as refused:
            client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], max_tokens=4)
        refusals.append(refused.value)
        time.sleep(0.5)
    return refusals


def wait_for(service: Service, batch_id: str, num_answered: int | None) -> Any:
    """Until so many lines have an answer, or all files are there."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        # Whoever answers may just have been killed.
        with suppress(openai.APIError):
            batch = service.client.batches.retrieve(batch_id)
            counts = batch.request_counts
            assert counts is not None
            if num_answered is None and batch.status == "completed":
                return batch
            if num_answered is not None and counts.completed >= num_answered:
                assert batch.status == "in_progress", "it was over before the kill: the test shows nothing"
                return batch
        time.sleep(0.3)
    raise AssertionError(f"{num_answered} lines were not answered in time")


def kill(demo: Demo, victim: Victim) -> None:
    if victim == "service":
        for process in demo.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while demo.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        return
    [process] = processes_named(NAMES[victim], demo.processes())
    os.kill(process, signal.SIGKILL)
