"""Batches on a real database and real files, with engines that answer, die or stall as a test wants."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployments.batch.runner import BatchRunner
from deployments.batch.stages import Stages
from deployments.batch.state.contents import Contents
from deployments.batch.state.records import TERMINAL, BatchRecord, Clock, FileRecord, Kind
from deployments.batch.state.store import BatchStore
from deployments.contract import LineAnswer, LineRequest
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.settings.batch import BatchSettings
from deployments.settings.limits import Limits

MODEL = "stand-in"
ENDPOINT = "/v1/chat/completions"
OWNER = "default"


def line_of(number: int, text: str = "Hello", **fields: Any) -> bytes:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}
    return json.dumps({"custom_id": f"row-{number}", "method": "POST", "url": ENDPOINT, "body": body}).encode()


def text_of(request: LineRequest) -> str:
    text: str = json.loads(request["body"])["messages"][-1]["content"]
    return text


@dataclass
class StandInEngines:
    """An engine of which a line's text says what it does to it. It dies with all lines in progress.

    Attributes:
        asked: How often each text came; ``owners`` in whose name, ``most`` how many were in progress at once.
        num_deaths: How often it died.
        after_answer: Called before each answer is given back; may raise.
    """

    num_lines: int = 4
    asked: Counter[str] = field(default_factory=Counter)
    owners: list[str] = field(default_factory=list)
    after_answer: Callable[[], None] = lambda: None
    ready: bool = True
    num_deaths: int = 0
    num_running: int = 0
    most: int = 0
    order: random.Random = field(default_factory=lambda: random.Random(7))

    async def answer(self, line: LineRequest) -> LineAnswer | None:
        text, num_deaths = text_of(line), self.num_deaths
        self.asked[text] += 1
        self.owners.append(line["owner"])
        self.num_running += 1
        self.most = max(self.most, self.num_running)
        try:
            if text == "stall":
                await asyncio.sleep(3600)
            await asyncio.sleep(self.order.random() * 0.004)
            if text == "poison" and self.num_deaths == num_deaths:
                self.num_deaths += 1
            if self.num_deaths != num_deaths:
                return None
            self.after_answer()
            return _answer(text)
        finally:
            self.num_running -= 1

    async def are_ready(self) -> bool:
        return self.ready


def _answer(text: str) -> LineAnswer:
    if text.startswith("status "):
        status = int(text.split()[1])
        error = {"message": "It failed.", "type": "server_error", "param": None, "code": "engine_error"}
        return {"status": status, "body": json.dumps({"error": error})}
    return {"status": 200, "body": json.dumps({"object": "chat.completion", "text": text})}


class World:
    """A folder with the state of batches, and what may be done with it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.settings = BatchSettings.model_validate({"state_dir": folder, **settings})
        self.store = BatchStore(self.settings.resolved_database())
        self.contents = Contents(self.settings.resolved_files())
        self.engines = StandInEngines()
        self.now = 1_000_000.0
        self.jumped_s = 0.0
        self.clock = self.new_clock()
        self.slept: list[float] = []
        self._num_batches = 0

    def new_clock(self) -> Clock:
        """That of a process that starts now, on a machine whose clock has jumped by ``jumped_s``."""
        return Clock(wall=lambda: self.now + self.jumped_s, monotonic=lambda: self.now)

    @asynccontextmanager
    async def runner(self, **options: Any) -> AsyncIterator[BatchRunner]:
        """A runner that is not started, and stopped at the end."""
        limits = Limits()
        stages = Stages(
            self.store, self.contents, ChatRequestReader(MODEL, limits), limits, self.settings, self.clock
        )  # fmt: skip
        runner = BatchRunner(stages, self.engines, sleep=self.sleep, **options)
        try:
            yield runner
        finally:
            await runner.stop()

    async def run(self, batch: BatchRecord) -> BatchRecord:
        """Runs a batch to its end in a process of its own."""
        async with self.runner() as runner:
            await runner.run(batch.id)
        return self.now_of(batch)

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[BatchRunner]:
        """A runner at work, which looks for batches often."""
        async with self.runner(**{"look_s": 0.01, **options}) as runner:
            runner.start()
            yield runner

    async def run_open(self, **options: Any) -> None:
        """Runs all open batches until there are none."""
        async with self.running(**options):
            await until(lambda: not self.store.open_batches())

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        # Others than this task may be waited for.
        await asyncio.sleep(min(seconds, 0.01))

    def batch_of(self, lines: Iterable[bytes], *, kind: Kind = "batch", **fields: Any) -> BatchRecord:
        self._num_batches += 1
        file_id = f"file-{self._num_batches:032x}"
        size = self.contents.write(file_id, [b"".join(line + b"\n" for line in lines)])
        now = int(self.now)
        self.store.add_file(
            FileRecord(
                id=file_id, owner=OWNER, purpose="batch", filename="in.jsonl", num_bytes=size, created_at=now,
                expires_at=now + 10**6,
            )
        )  # fmt: skip
        batch = BatchRecord.model_validate(
            {
                "id": f"batch_{self._num_batches:032x}", "owner": OWNER, "kind": kind, "endpoint": ENDPOINT,
                "input_file_id": file_id, "completion_window": "24h", "created_at": now, "deadline": now + 86400,
                **fields,
            }
        )  # fmt: skip
        self.store.add_batch(batch, max_open=1000, max_open_of_owner=1000)
        return batch

    def now_of(self, batch: BatchRecord) -> BatchRecord:
        found = self.store.batch(None, batch.id)
        assert found is not None
        return found

    def has_ended(self, batch: BatchRecord) -> bool:
        return self.now_of(batch).status in TERMINAL

    def lines_of(self, file_id: str | None) -> list[dict[str, Any]]:
        if file_id is None:
            return []
        with self.contents.open(file_id) as stream:
            text = stream.read()
        assert text.endswith(b"\n")
        return [json.loads(line) for line in text.splitlines()]


def assert_every_line_once(world: World, batch: BatchRecord, total: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Output and errors by the client's name for the line."""
    ended = world.now_of(batch)
    output, errors = world.lines_of(ended.output_file_id), world.lines_of(ended.error_file_id)
    assert (ended.total, ended.completed, ended.failed) == (total, len(output), len(errors))
    assert ended.completed + ended.failed == total
    names = [line["id"] for line in output + errors]
    assert len(set(names)) == total
    assert not world.store.recorded_lines(batch.id)
    assert all(line["error"] is None and line["response"]["status_code"] == 200 for line in output)
    assert all(line["error"]["message"].startswith(f"Line {line['error']['line']}: ") for line in errors)
    by_name = [{line["custom_id"]: line for line in lines if line["custom_id"]} for lines in (output, errors)]
    assert not by_name[0].keys() & by_name[1].keys()
    return by_name[0], by_name[1]


async def until(is_so: Callable[[], bool], timeout_s: float = 20) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, "it was not so in time"
        await asyncio.sleep(0.01)
