"""What crosses between the front and the batch deployment."""

from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from starlette.datastructures import UploadFile

from deployments.batch.api.handle import PIECE_BYTES, BatchClient, Reply
from deployments.batch.api.service import BatchService
from deployments.batch.deployment import reply_of
from deployments.batch.state.store import StoreError
from deployments.contract import Caller
from deployments.errors import ApiError, ConflictError, NotFoundError, TooManyRequestsError
from deployments.storage import StorageError
from tests.deployments.stand_in import across_a_handle

SECRET = "the secret reason"
ME = Caller("me", "req-1")


def raising(error: Exception) -> Callable[..., Any]:
    def operation(*_: object) -> Any:
        raise error

    return operation


class Handle:
    """Gives one reply to everything, or raises, and remembers what it was asked."""

    def __init__(self, reply: Reply | Exception) -> None:
        self._reply = reply
        self.asked: list[Any] = []
        self.call = SimpleNamespace(remote=self._call)

    async def _call(self, name: str, *args: Any) -> Reply:
        assert callable(getattr(BatchService, name))
        self.asked.append((name, *args))
        if isinstance(self._reply, Exception) and not isinstance(self._reply, ApiError):
            raise self._reply
        return self._reply


def client(handle: Any) -> BatchClient:
    return BatchClient(handle)


async def caught(reply: Reply | Exception) -> ApiError:
    with pytest.raises(ApiError) as error:
        await client(Handle(reply)).call(ME, "get_file", "file-1")
    return error.value


async def test_a_value_crosses_as_it_is() -> None:
    handle = Handle(reply_of(lambda: ["me", b"x"]))
    value: object = await client(handle).call(ME, "read_file", "file-1", 2, 3)
    assert value == ["me", b"x"]
    assert handle.asked == [("read_file", "me", "file-1", 2, 3)]
    assert reply_of(lambda: None) is None


async def test_an_upload_is_passed_on_in_pieces() -> None:
    handle, content = Handle("file-7"), b"0123456789" * 250_000
    assert await client(handle).upload(ME, UploadFile(BytesIO(content), size=len(content))) == "file-7"
    assert handle.asked[0] == ("begin_upload", "me", len(content))
    pieces = [args[3] for args in handle.asked[1:]]
    assert all(args[:3] == ("append", "me", "file-7") for args in handle.asked[1:])
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) == PIECE_BYTES


@pytest.mark.parametrize(
    "error",
    [NotFoundError("There is no such file.", "id"), ConflictError("In use.", code="file_in_use")],
)
async def test_an_error_of_the_callers_crosses_as_it_is(error: ApiError) -> None:
    crossed = await caught(reply_of(raising(error)))
    assert crossed.status == error.status
    assert crossed.to_dict() == error.to_dict()


async def test_who_has_too_much_going_on_is_told_when_to_come_back() -> None:
    crossed = await caught(reply_of(raising(TooManyRequestsError("Wait.", code="too_many_batches"))))
    assert (crossed.status, crossed.code, crossed.headers) == (429, "too_many_batches", (("Retry-After", "1"),))


@pytest.mark.parametrize("error", [StoreError(SECRET), StorageError(SECRET)])
async def test_state_that_cannot_be_used_is_no_capacity_and_only_the_log_knows_why(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    crossed = await caught(reply_of(raising(error)))
    assert (crossed.status, crossed.code) == (503, "storage_unavailable")
    assert "req-1" in crossed.message
    assert SECRET not in crossed.message
    assert SECRET in caplog.text


async def test_a_fault_of_ours_names_the_request_id_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    crossed = await caught(reply_of(raising(RuntimeError(SECRET))))
    assert (crossed.status, crossed.code) == (500, "internal_error")
    assert "req-1" in crossed.message
    assert SECRET not in crossed.message
    assert SECRET in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        RayActorError(),
        ActorDiedError(),
        DeploymentUnavailableError("down"),
        BackPressureError(num_queued_requests=9, max_queued_requests=9),
    ],
)
async def test_a_deployment_that_is_away_for_a_moment_is_no_capacity(error: Exception) -> None:
    assert (await caught(error)).status == 503


async def test_what_should_not_come_is_our_fault() -> None:
    crossed = await caught(across_a_handle(ValueError(SECRET)))
    assert crossed.status == 500
    assert SECRET not in crossed.message
