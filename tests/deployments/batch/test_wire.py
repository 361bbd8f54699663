"""The routes under a real server, files on their way to a client, and what crosses to the batch deployment."""

import asyncio
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import httpx2
import openai
import pytest
from ray.exceptions import ActorDiedError, RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from starlette.datastructures import UploadFile
from starlette.types import Message

from deployments.batch.api import BatchClient, file_pieces
from deployments.batch.database import StoreError
from deployments.contract import Caller
from deployments.ingress.stream import ClientLeft, PieceStream
from deployments.storage import Location
from tests.deployments.batch.world import FEW, BatchWorld, raising
from tests.deployments.front import KEY, Front, assert_error, client_of, raw_request
from tests.deployments.stand_in import across_a_handle

JOBS = "/v1/batch/jobs"
SECRET = "the secret reason"
FEW_BYTES, MANY_BYTES = 64 * 1024, 2**20
"""The first piece of a file that is read, and the largest."""


@pytest.fixture
def roomy(front: Front, tmp_path: Path) -> Iterator[BatchWorld]:
    world = BatchWorld(tmp_path)
    front.batches.service = world.service
    yield world
    front.batches.service = None
    world.close()


class TestServer:
    def test_a_file_of_any_size_comes_whole(self, front: Front, roomy: BatchWorld) -> None:
        for size in (1, FEW_BYTES - 1, FEW_BYTES, FEW_BYTES + 1, FEW_BYTES + 2 * MANY_BYTES + 7):
            content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
            response = front.get(f"/v1/files/{roomy.upload(content)}/content")
            assert response.headers["content-length"] == str(size)
            assert response.content == content
        # An output without a line.
        response = front.get(f"/v1/files/{roomy.end(roomy.batch()['id'], b'')}/content")
        assert (response.status_code, response.content) == (200, b"")

    def test_a_file_that_breaks_off_is_noticed(
        self, front: Front, roomy: BatchWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file_id = roomy.upload(b"x" * (FEW_BYTES + 1))
        read = Location.read
        monkeypatch.setattr(Location, "read", lambda file, at, most: read(file, at, most) if at == 0 else b"")
        with pytest.raises(httpx2.RemoteProtocolError):
            front.get(f"/v1/files/{file_id}/content")

    def test_a_file_that_is_too_large_is_refused_and_the_client_learns_why(self, front: Front) -> None:
        url = f"http://127.0.0.1:{front.port}/v1"
        with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=20) as client:
            for num_bytes in (FEW.max_file_bytes + 1, FEW.max_file_bytes + 70_000, 20_000_000):
                with pytest.raises(openai.APIStatusError, match="more than 100000 bytes") as caught:
                    client.files.create(file=b"x" * num_bytes, purpose="batch")
                assert caught.value.status_code == 413

    def test_every_route_needs_its_path_and_its_method(self, front: Front, roomy: BatchWorld) -> None:
        files = ["", "/content", "file-1/", "file-1/content/", "file-1/other", "../models", "%66ile-1", "x"]
        files += ("file-1%2Fcontent", "FILE-1", "a" * 65, "file-1%0a", f"file-{'0' * 32}", f"file-{'0' * 32}/content")
        others = ("batches/batch_1/cancel/x", "batch", "batch/", "batch/jobs/", "batch/jobs/job_1/result")
        for path in (*(f"/v1/files/{rest}" for rest in files), *(f"/v1/{rest}" for rest in others)):
            assert front.send_raw(raw_request(path))[0] == 404, path
        with front.client() as client:
            for method, path, allowed in (
                ("PUT", "/v1/files", {"GET", "POST"}),
                ("GET", JOBS, {"POST"}),
            ):
                response = client.request(method, path)
                assert_error(response, 405)
                assert set(response.headers["allow"].split(", ")) == allowed


async def test_where_batches_are_switched_off_there_are_no_routes() -> None:
    async with client_of(key=KEY) as client:
        for path in ("/v1/files", "/v1/batches", f"{JOBS}/job_1"):
            assert_error(await client.get(path), 404)


class TestHandle:
    """Errors cross as values; ``test_files`` and ``test_batches`` see those of callers."""

    def test_a_fault_of_ours_names_the_request_id_and_only_the_log_knows_why(
        self,
        client: httpx2.Client,
        small: BatchWorld,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        errors = ((StoreError(SECRET), 503, "storage_unavailable"), (RuntimeError(SECRET), 500, "internal_error"))
        for error, status, code in errors:
            monkeypatch.setattr(small.store, "batches", raising(error))
            response = client.get("/v1/batches")
            message = assert_error(response, status, code=code)["message"]
            assert response.headers["x-request-id"] in message
            assert SECRET not in message
            assert SECRET in caplog.text
            caplog.clear()

    def test_a_deployment_that_is_away_is_no_capacity_and_what_should_not_come_our_fault(
        self, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for error, status in (
            (RayActorError(), 503),
            (ActorDiedError(), 503),
            (DeploymentUnavailableError("down"), 503),
            (BackPressureError(num_queued_requests=9, max_queued_requests=9), 503),
            (across_a_handle(ValueError(SECRET)), 500),
        ):
            monkeypatch.setattr("tests.deployments.batch.direct.reply_of", raising(error))
            response = client.get("/v1/batches")
            assert response.status_code == status, error
            assert SECRET not in response.text

    async def test_an_upload_is_passed_on_in_pieces(
        self, front: Front, roomy: BatchWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content, pieces = b"0123456789" * 250_000, list[bytes]()
        append = roomy.service.append

        def keep(owner: str, upload_id: str, piece: bytes) -> None:
            pieces.append(piece)
            append(owner, upload_id, piece)

        monkeypatch.setattr(roomy.service, "append", keep)
        upload = UploadFile(BytesIO(content), size=len(content))
        upload_id = await BatchClient(front.batches).upload(Caller("me", "req-1"), upload)
        assert roomy.service.create_file("me", upload_id, "a", "batch")["bytes"] == len(content)
        assert b"".join(pieces) == content
        assert [len(piece) for piece in pieces] == [2**20, 2**20, len(content) - 2**21]


async def large_file() -> tuple[PieceStream, list[int]]:
    """A file of 100 MiB, and the places from which it was read."""
    asked: list[int] = []

    async def read(offset: int, num_bytes: int) -> bytes:
        asked.append(offset)
        return b"x" * num_bytes

    pieces = file_pieces(read, 100 * MANY_BYTES, "req-1")
    return PieceStream(await anext(pieces), pieces, "req-1", "text/plain", {}), asked


class TestFileStream:
    @pytest.mark.fault(59)
    async def test_of_a_file_that_nobody_reads_one_small_piece_is_read(self) -> None:
        stream, asked = await large_file()
        num_sent = 0

        async def receive() -> Message:
            await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal num_sent
            num_sent += len(message.get("body", b""))
            if num_sent:
                await asyncio.sleep(3600)

        sending = asyncio.create_task(stream({}, receive, send))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert (asked, num_sent) == ([0], FEW_BYTES)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    async def test_nothing_more_is_read_for_a_client_that_left(self) -> None:
        stream, asked = await large_file()
        left = asyncio.Event()

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if len(asked) == 3:
                left.set()
            await asyncio.sleep(0)

        with pytest.raises(ClientLeft):
            await stream({}, receive, send)
        assert len(asked) < 10
