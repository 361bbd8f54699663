"""One kit for batches: a real database and real files, the service over them, and engines that do as a test wants."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine

from deployments.batch.models import OPEN, TERMINAL, Batch, File, LineResult
from deployments.batch.runner import BatchRunner
from deployments.batch.service import BatchService
from deployments.batch.stages import Clock, Stages
from deployments.batch.store import BatchStore
from deployments.contract import LineAnswer, LineRequest
from deployments.errors import BadRequestError, EngineDiedError, EngineError, NotStartedError
from deployments.protocol.reader import ChatRequestReader
from deployments.settings.batch import BatchSettings
from deployments.settings.limits import BatchLimits
from deployments.settings.service import Settings
from deployments.storage import Location
from tests.deployments.front import CHAT, KEY, LIMITS, MODEL, chat_body

OWNER = "default"
NOW = 1_750_000_000
FEW = BatchLimits(
    max_file_bytes=100_000,
    max_lines=5,
    max_open=4,
    max_open_per_key=3,
    max_bytes_per_key=150_000,
    retention_s=10 * 86400,
)


def a_file(file_id: str = "file-1", **fields: Any) -> File:
    """A record, with every field that a test does not care about filled in."""
    values = {"owner": "anna", "purpose": "batch", "filename": "in.jsonl", "num_bytes": 5, "created_at": 100}
    return File(**{"id": file_id, **values, **fields})


def a_batch(batch_id: str = "batch_1", **fields: Any) -> Batch:
    values = {"owner": "anna", "kind": "batch", "endpoint": CHAT, "input_file_id": "file-1"}
    times = {"completion_window": "24h", "created_at": 100, "deadline": 86500}
    return Batch(**{"id": batch_id, **values, **times, **fields})


def a_result(line: int, record: str = "{}", *, is_error: bool = False) -> LineResult:
    return LineResult(line=line, is_error=is_error, record=record)


def add(store: BatchStore, *batch_ids: str, **fields: object) -> None:
    """Add batches, however many are open."""
    for batch_id in batch_ids or ("batch_1",):
        store.add_batch(a_batch(batch_id, **fields), max_open=1000, max_open_of_owner=1000)


def found(store: BatchStore, batch_id: str = "batch_1") -> Batch:
    batch = store.batch(None, batch_id)
    assert batch is not None
    return batch


@contextmanager
def another_program(url: str) -> Iterator[Connection]:
    """One that has the database open beside the service, in a transaction of its own."""
    engine = create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def line_of(number: int, text: str = "Hello", **fields: Any) -> bytes:
    line = {"custom_id": f"row-{number}", "method": "POST", "url": CHAT, "body": chat_body(text, **fields)}
    return json.dumps(line).encode()


def jsonl(num_lines: int = 1) -> bytes:
    return b"".join(line_of(number) + b"\n" for number in range(num_lines))


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

    async def answer(self, line: LineRequest) -> LineAnswer:
        text: str = line.body["messages"][-1]["content"]
        num_deaths = self.num_deaths
        self.asked[text] += 1
        self.owners.append(line.owner)
        self.num_running += 1
        self.most = max(self.most, self.num_running)
        try:
            if text == "stall":
                await asyncio.sleep(3600)
            await asyncio.sleep(self.order.random() * 0.004)
            if text == "poison" and self.num_deaths == num_deaths:
                self.num_deaths += 1
            if self.num_deaths != num_deaths:
                return EngineDiedError()
            self.after_answer()
            return _answer(text)
        finally:
            self.num_running -= 1

    async def are_ready(self) -> bool:
        return self.ready


def _answer(text: str) -> LineAnswer:
    """``status N`` is an error with this status, and ``not started`` the one of a line that reached no engine."""
    if text == "not started":
        return NotStartedError("It is being replaced.")
    if text.startswith("status "):
        return EngineError(int(text.split()[1]), "It failed.", param="vocab.lang", code="of_the_engine")
    if text == "no list":
        return BadRequestError("There is no list 'xx'.", "vocab_lang", "invalid_vocabulary")
    return {"object": "chat.completion", "text": text}


class BatchWorld:
    """A folder with the state of batches, and what may be done with it by clients, engines and a clock that stands.

    ``num_changes`` counts how often the service said that something changed.
    """

    def __init__(self, folder: Path, *, compatibility: Any = "none", **settings: Any) -> None:
        self.folder = folder
        self.settings = BatchSettings.model_validate({"state_dir": folder, **settings})
        self.store = BatchStore(self.settings.resolved_database())
        self.files = Location.of(self.settings.resolved_files())
        self.files.prepare_folder()
        self.engines = StandInEngines()
        self.now = float(NOW)
        self.jumped_s = 0.0
        self.clock = self.new_clock()
        self.slept: list[float] = []
        self.num_changes = 0
        service: dict[str, Any] = {"model_id": MODEL, "secret_token": KEY, "limits": LIMITS, "batch": self.settings}
        self.all_settings = Settings(**service, compatibility=compatibility)
        self.service = BatchService(
            self.all_settings,
            self.store,
            self.files,
            clock=lambda: self.now,
            on_change=self._count,
        )
        self._num_batches = 0

    def close(self) -> None:
        self.service.close()
        self.store.close()

    def new_clock(self) -> Clock:
        """That of a process that starts now, on a machine whose clock has jumped by ``jumped_s``."""
        return Clock(wall=lambda: self.now + self.jumped_s, monotonic=lambda: self.now)

    # As a client, through the service

    def send(self, content: bytes, owner: str = OWNER, piece_bytes: int = 1000) -> str:
        """The id of an upload whose pieces have all come."""
        upload_id = self.service.begin_upload(owner, len(content))
        for start in range(0, len(content), piece_bytes):
            self.service.append(owner, upload_id, content[start : start + piece_bytes])
        return upload_id

    def upload(self, content: bytes | None = None, owner: str = OWNER, **options: Any) -> str:
        """The id of a new file."""
        upload_id = self.send(content or jsonl(), owner)
        file_id: str = self.service.create_file(owner, upload_id, "in.jsonl", "batch", **options)["id"]
        return file_id

    def batch(self, file_id: str | None = None, owner: str = OWNER, **fields: Any) -> dict[str, Any]:
        """A new batch, of a new file unless one is named."""
        file_id = file_id or self.upload(owner=owner)
        given = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h", **fields}
        return self.service.create_batch(owner, given)

    def end(self, batch_id: str, output: bytes = b"[]", status: str = "completed", **changes: Any) -> str:
        """Brings a batch to its end, as the runner does; gives the id of its output file."""
        batch = found(self.store, batch_id)
        file_id = f"file-{len(output):032x}"
        num_bytes = self.files.child(file_id).write([output])
        file = a_file(file_id, owner=batch.owner, purpose="batch_output", filename="out.jsonl", num_bytes=num_bytes)
        assert self.store.finish(batch_id, only_from=OPEN, files=[file], status=status, **changes)
        return file_id

    def num_contents(self) -> int:
        return len(list((self.folder / "files").iterdir()))

    def _count(self) -> None:
        self.num_changes += 1

    # As the runner

    def batch_of(self, lines: Iterable[bytes], **fields: Any) -> Batch:
        """A new batch of these lines, past the service and its limits."""
        self._num_batches += 1
        file_id = f"file-{self._num_batches:032x}"
        num_bytes = self.files.child(file_id).write([b"".join(line + b"\n" for line in lines)])
        now = int(self.now)
        self.store.add_file(a_file(file_id, num_bytes=num_bytes, created_at=now, expires_at=now + 10**6))
        times = {"created_at": now, "deadline": now + 86400}
        batch_id = f"batch_{self._num_batches:032x}"
        add(self.store, batch_id, **{"owner": OWNER, "input_file_id": file_id, **times, **fields})
        return found(self.store, batch_id)

    @asynccontextmanager
    async def runner(self, **options: Any) -> AsyncIterator[BatchRunner]:
        """A runner that is not started, and stopped at the end."""
        reader = ChatRequestReader.of(self.all_settings)
        stages = Stages(self.store, self.files, reader, LIMITS, self.settings, self.clock)
        runner = BatchRunner(stages, self.engines, sleep=self._sleep, **options)
        try:
            yield runner
        finally:
            await runner.stop()

    async def run(self, batch: Batch) -> Batch:
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

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        # Others than this task may be waited for.
        await asyncio.sleep(min(seconds, 0.01))

    def now_of(self, batch: Batch) -> Batch:
        return found(self.store, batch.id)

    def has_ended(self, batch: Batch) -> bool:
        return self.now_of(batch).status in TERMINAL

    def lines_of(self, file_id: str | None) -> list[dict[str, Any]]:
        if file_id is None:
            return []
        with self.files.child(file_id).open() as stream:
            text = stream.read()
        assert text.endswith(b"\n")
        return [json.loads(line) for line in text.splitlines()]


def assert_every_line_once(world: BatchWorld, batch: Batch, total: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Output and errors by the client's name for the line."""
    ended = world.now_of(batch)
    output, errors = world.lines_of(ended.output_file_id), world.lines_of(ended.error_file_id)
    assert (ended.total, ended.completed, ended.failed) == (total, len(output), len(errors))
    assert ended.completed + ended.failed == total
    names = [line["id"] for line in output + errors]
    assert len(set(names)) == total
    assert not world.store.results(ended, after_line=0, limit=1)
    assert all(line["error"] is None and line["response"]["status_code"] == 200 for line in output)
    assert all(line["error"]["message"].startswith(f"Line {line['error']['line']}: ") for line in errors)
    by_name = [{line["custom_id"]: line for line in lines if line["custom_id"]} for lines in (output, errors)]
    assert not by_name[0].keys() & by_name[1].keys()
    return by_name[0], by_name[1]


async def until(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, "it was not so in time"
        await asyncio.sleep(0.01)


def raising(error: BaseException) -> Callable[..., Any]:
    def operation(*_: object, **__: object) -> Any:
        raise error

    return operation
