"""Batches on a real database and real files, with engines that answer, die or stall as a test wants."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployments.batch.state.contents import Contents
from deployments.batch.state.records import BatchRecord, Clock, FileRecord, Kind
from deployments.batch.state.store import BatchStore
from deployments.batch.worker.feeder import Answers, FeederDiedError
from deployments.batch.worker.run_context import RunContext
from deployments.contract import NOT_STARTED, LineAnswer, LineRequest
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
    """Engines of which a line's text says what it does to them; ``asked`` counts how often each text came, and
    ``num_deaths`` how often an engine died.

    Attributes:
        after_answer: Called after each answer that is given back; may raise. ``after_death`` is after each death.
        window: Lines under way at once, which die together.
    """

    asked: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)
    after_answer: Callable[[], None] = lambda: None
    after_death: Callable[[], None] = lambda: None
    window: int = 4
    ready: bool = True
    num_deaths: int = 0
    owners: set[str] = field(default_factory=set)
    order: random.Random = field(default_factory=lambda: random.Random(7))

    def answer_many(
        self,
        lines: Sequence[tuple[int, LineRequest]],
        should_stop: Callable[[], bool],
        at_once: int | None = None,
    ) -> Iterator[Answers]:
        rest, window = list(lines), min(self.window, at_once or self.window)
        while rest:
            if should_stop():
                return
            under_way, rest = rest[:window], rest[window:]
            self.order.shuffle(under_way)
            for _, request in under_way:
                self.asked[text_of(request)] += 1
                if text_of(request) == "feeder dies":
                    raise FeederDiedError("killed")
            if any(text_of(request) == "stall" for _, request in under_way):
                stall(should_stop)
                return
            if any(text_of(request) == "poison" for _, request in under_way):
                yield [(number, None) for number, _ in under_way]
                self.num_deaths += 1
                self.after_death()
                return
            for number, request in under_way:
                yield [(number, self._answer(request))]
                self.after_answer()

    def answer_one(self, line: LineRequest, should_stop: Callable[[], bool]) -> LineAnswer | None:
        self.asked[text_of(line)] += 1
        self.alone[text_of(line)] += 1
        if text_of(line) == "stall":
            stall(should_stop)
            return {"status": NOT_STARTED, "body": "null"}
        if text_of(line) == "poison":
            self.num_deaths += 1
            return None
        return self._answer(line)

    def are_ready(self) -> bool:
        return self.ready

    def _answer(self, line: LineRequest) -> LineAnswer:
        self.owners.add(line["owner"])
        text = text_of(line)
        if text.startswith("status "):
            status = int(text.split()[1])
            error = {"message": "It failed.", "type": "server_error", "param": None, "code": "engine_error"}
            return {"status": status, "body": json.dumps({"error": error})}
        return {"status": 200, "body": json.dumps({"object": "chat.completion", "text": text})}


def stall(should_stop: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not should_stop() and time.monotonic() < deadline:
        time.sleep(0.01)


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
        self.stopping = False
        self.slept: list[float] = []
        self._num_batches = 0

    def new_clock(self) -> Clock:
        """That of a process that starts now, on a machine whose clock has jumped by ``jumped_s``."""
        return Clock(wall=lambda: self.now + self.jumped_s, monotonic=lambda: self.now)

    def context(self, is_stopping: Callable[[], bool] | None = None) -> RunContext:
        limits = Limits()
        return RunContext(
            store=self.store,
            contents=self.contents,
            engines=self.engines,
            reader=ChatRequestReader(MODEL, limits),
            limits=limits,
            settings=self.settings,
            is_stopping=is_stopping or (lambda: self.stopping),
            clock=self.clock,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        # Others than this thread may be waited for.
        time.sleep(min(seconds, 0.01))

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
