"""The routes under a real server, files on their way to a client, and what crosses to the batch deployment."""

import asyncio
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from ray.exceptions import ActorDiedError, RayActorError
from ray.serve._private.common import RequestMetadata
from ray.serve._private.http_util import ASGIReceiveProxy
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from starlette.datastructures import UploadFile
from starlette.types import Message, Scope

from deployments.batch.api import PIECE_BYTES, BatchClient, FileStream
from deployments.batch.database import StoreError
from deployments.batch.service import BatchService
from deployments.contract import Caller
from deployments.errors import InternalError, NotFoundError
from deployments.ingress.app import create_app
from deployments.ingress.connections.send_ahead import CONFIRM_BYTES, CONFIRMS, FEW_BYTES, MANY_BYTES, SendAhead
from deployments.ingress.stream import ClientLeft
from deployments.settings.service import Settings
from deployments.storage import Location
from tests.deployments.batch.world import FEW, BatchWorld
from tests.deployments.front import KEY, LIMITS, MODEL, Front, assert_error, raw_request
from tests.deployments.stand_in import StandIn, across_a_handle

JOBS = "/v1/batch/jobs"
SECRET = "the secret reason"


@pytest.fixture
def roomy(front: Front, tmp_path: Path) -> Iterator[BatchWorld]:
    world = BatchWorld(tmp_path)
    front.batches.service = world.service
    yield world
    front.batches.service = None
    world.close()


class TestServer:
    @pytest.mark.parametrize("size", [1, FEW_BYTES - 1, FEW_BYTES, FEW_BYTES + 1, FEW_BYTES + 2 * MANY_BYTES + 7])
    def test_a_file_of_any_size_comes_whole(self, front: Front, roomy: BatchWorld, size: int) -> None:
        content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        response = front.get(f"/v1/files/{roomy.upload(content)}/content")
        assert response.headers["content-length"] == str(size)
        assert response.content == content

    def test_an_output_without_a_line_is_an_empty_answer(self, front: Front, roomy: BatchWorld) -> None:
        response = front.get(f"/v1/files/{roomy.end(roomy.batch()['id'], b'')}/content")
        assert (response.status_code, response.content) == (200, b"")

    def test_a_file_that_breaks_off_is_noticed(
        self, front: Front, roomy: BatchWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file_id = roomy.upload(b"x" * (FEW_BYTES + 1))
        read = Location.read
        monkeypatch.setattr(Location, "read", lambda file, at, most: read(file, at, most) if at == 0 else b"")
        with pytest.raises(httpx.RemoteProtocolError):
            front.get(f"/v1/files/{file_id}/content")

    @pytest.mark.parametrize("num_bytes", [FEW.max_file_bytes + 1, FEW.max_file_bytes + 70_000, 20_000_000])
    def test_a_file_that_is_too_large_is_refused_and_the_client_learns_why(self, front: Front, num_bytes: int) -> None:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{front.port}/v1", api_key=KEY, max_retries=0, timeout=20)
        with client, pytest.raises(openai.APIStatusError, match="more than 100000 bytes") as caught:
            client.files.create(file=b"x" * num_bytes, purpose="batch")
        assert caught.value.status_code == 413

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("PUT", "/v1/files", "GET, POST"),
            ("POST", "/v1/files/file-1", "GET, DELETE"),
            ("DELETE", "/v1/files/file-1/content", "GET"),
            ("DELETE", "/v1/batches/batch_1", "GET"),
            ("GET", "/v1/batches/batch_1/cancel", "POST"),
            ("GET", JOBS, "POST"),
            ("POST", f"{JOBS}/job_1", "GET"),
            ("DELETE", f"{JOBS}/job_1/results", "GET"),
        ],
    )
    def test_another_method_is_not_allowed(self, front: Front, method: str, path: str, allowed: str) -> None:
        with front.client() as client:
            response = client.request(method, path)
        assert_error(response, 405)
        assert set(response.headers["allow"].split(", ")) == set(allowed.split(", "))

    def test_what_is_no_path_is_not_found(self, front: Front, roomy: BatchWorld) -> None:
        files = ["", "/content", "file-1/", "file-1/content/", "file-1/other", "../models", "%66ile-1", "x"]
        files += ("file-1%2Fcontent", "FILE-1", "a" * 65, "file-1%0a", f"file-{'0' * 32}", f"file-{'0' * 32}/content")
        others = ("batches/batch_1/cancel/x", "batch", "batch/", "batch/jobs/", "batch/jobs/job_1/result")
        for path in (*(f"/v1/files/{rest}" for rest in files), *(f"/v1/{rest}" for rest in others)):
            assert front.send_raw(raw_request(path))[0] == 404, path

    def test_every_route_needs_a_key(self, front: Front) -> None:
        for path in ("/v1/files", "/v1/batches", f"{JOBS}/job_1"):
            assert front.send_raw(raw_request(path, key=None))[0] == 401
        assert front.send_raw(raw_request("/v1/files", method="POST", key=None))[0] == 401

    def test_while_the_deployment_is_away_there_is_no_capacity(self, front: Front) -> None:
        response = front.get("/v1/batches")
        assert_error(response, 503, code="overloaded")
        assert response.headers["retry-after"] == "1"


async def test_where_batches_are_switched_off_there_are_no_routes() -> None:
    settings = Settings(model_id=MODEL, secret_token=KEY, limits=LIMITS)
    transport = httpx.ASGITransport(create_app(settings, StandIn()))
    headers = {"X-API-Key": KEY}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        for path in ("/v1/files", "/v1/batches", f"{JOBS}/job_1"):
            assert_error(await client.get(path), 404)


class TestHandle:
    """Errors cross as values; ``test_files`` and ``test_batches`` see those of callers."""

    @pytest.mark.parametrize(
        ("error", "status", "code"),
        [
            (StoreError(SECRET), 503, "storage_unavailable"),
            (RuntimeError(SECRET), 500, "internal_error"),
        ],
    )
    def test_a_fault_of_ours_names_the_request_id_and_only_the_log_knows_why(
        self,
        client: httpx.Client,
        small: BatchWorld,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        error: Exception,
        status: int,
        code: str,
    ) -> None:
        monkeypatch.setattr(small.store, "batches", raising(error))
        response = client.get("/v1/batches")
        message = assert_error(response, status, code=code)["message"]
        assert response.headers["x-request-id"] in message
        assert SECRET not in message
        assert SECRET in caplog.text

    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (RayActorError(), 503),
            (ActorDiedError(), 503),
            (DeploymentUnavailableError("down"), 503),
            (BackPressureError(num_queued_requests=9, max_queued_requests=9), 503),
            (across_a_handle(ValueError(SECRET)), 500),
        ],
    )
    def test_a_deployment_that_is_away_is_no_capacity_and_what_should_not_come_our_fault(
        self, client: httpx.Client, small: BatchWorld, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
    ) -> None:
        monkeypatch.setattr("tests.deployments.batch.direct.reply_of", raising(error))
        response = client.get("/v1/batches")
        assert response.status_code == status
        assert SECRET not in response.text

    async def test_an_upload_is_passed_on_in_pieces(self) -> None:
        asked: list[Any] = []

        async def call(name: str, *args: Any) -> str:
            assert callable(getattr(BatchService, name))
            asked.append((name, *args))
            return "file-7"

        handle: Any = SimpleNamespace(call=SimpleNamespace(remote=call))
        content = b"0123456789" * 250_000
        upload = UploadFile(BytesIO(content), size=len(content))
        assert await BatchClient(handle).upload(Caller("me", "req-1"), upload) == "file-7"
        assert asked[0] == ("begin_upload", "me", len(content))
        assert all(args[:3] == ("append", "me", "file-7") for args in asked[1:])
        pieces = [args[3] for args in asked[1:]]
        assert b"".join(pieces) == content
        assert max(map(len, pieces)) == PIECE_BYTES


def raising(error: Exception) -> Callable[..., Any]:
    def operation(*_: object, **__: object) -> Any:
        raise error

    return operation


class File:
    """As large as it is said to be, and read where it is asked for."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.asked: list[int] = []

    async def read(self, offset: int, num_bytes: int) -> bytes:
        self.asked.append(offset)
        return b"x" * min(num_bytes, self.num_bytes - offset)

    async def stream(self) -> FileStream:
        return await FileStream.begin(self.read, self.num_bytes, "text/plain", "req-1")


class TestFileStream:
    async def test_a_piece_is_read_when_the_one_before_has_gone(self) -> None:
        file = File(FEW_BYTES + 2 * MANY_BYTES)
        stream = await file.stream()
        num_sent = 0

        async def send(message: Message) -> None:
            nonlocal num_sent
            if message["type"] == "http.response.body":
                assert len(file.asked) == num_sent + 1
                num_sent += 1

        await stream({}, _stay, send)
        assert file.asked == [0, FEW_BYTES, FEW_BYTES + MANY_BYTES]

    async def test_of_a_file_that_nobody_reads_one_small_piece_is_read(self) -> None:
        file = File(100 * MANY_BYTES)
        stream = await file.stream()
        scope: Scope = {CONFIRMS: CONFIRM_BYTES}
        num_sent = 0

        async def fetch(_: RequestMetadata) -> bytes:
            await asyncio.sleep(3600)
            return b""

        async def send(message: Message) -> None:
            nonlocal num_sent
            num_sent += len(message.get("body", b""))

        proxied = ASGIReceiveProxy({"type": "http"}, RequestMetadata(request_id="1", internal_request_id="1"), fetch)
        with SendAhead().limit(scope, proxied, send) as limited:
            sending = asyncio.create_task(stream(scope, proxied, limited))
            for _ in range(1000):
                await asyncio.sleep(0)
            assert (file.asked, num_sent) == ([0], FEW_BYTES)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def test_nothing_more_is_read_for_a_client_that_left(self) -> None:
        file = File(100 * MANY_BYTES)
        stream = await file.stream()
        left = asyncio.Event()

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if len(file.asked) == 3:
                left.set()
            await asyncio.sleep(0)

        with pytest.raises(ClientLeft):
            await stream({}, receive, send)
        assert len(file.asked) < 10

    async def test_a_file_that_cannot_be_read_is_an_error_before_anything_is_sent(self) -> None:
        async def fail(_: int, __: int) -> bytes:
            raise NotFoundError("There is no such file.")

        with pytest.raises(NotFoundError):
            await FileStream.begin(fail, 5, "text/plain", "req-1")
        with pytest.raises(InternalError):
            await FileStream.begin(File(5).read, 6, "text/plain", "req-1")


async def _stay() -> Message:
    await asyncio.sleep(3600)
    return {}
