"""The routes of files, batches and jobs under a real server, by plain HTTP and with the ``openai`` package."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from deployments.batch.api.uploads import MAX_FIELD_BYTES
from deployments.ingress.app import create_app
from deployments.ingress.connections.send_ahead import FEW_BYTES, MANY_BYTES
from deployments.settings.limits import BatchLimits
from deployments.settings.service import Settings
from tests.deployments.batch.served import ENDPOINT, FEW, NOW, World, jsonl
from tests.deployments.front import KEY, KEYS, LIMITS, MODEL, Front, assert_error, chat_body, raw_request
from tests.deployments.stand_in import StandIn

NO_ID = "0" * 32
JOBS = "/v1/batch/jobs"
CHAT = {"messages": chat_body()["messages"]}


@pytest.fixture
def world(front: Front, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    front.batches.service = world.service
    yield world
    front.batches.service = None
    world.close()


@pytest.fixture
def client(front: Front, world: World) -> Iterator[openai.OpenAI]:
    with _openai(front, KEY) as client:
        yield client


def _openai(front: Front, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{front.port}/v1", api_key=key, max_retries=0, timeout=20)


def post(front: Front, path: str, **options: Any) -> httpx.Response:
    with front.client() as client:
        return client.post(path, **options)


def post_job(front: Front, items: list[Any] | bytes, **query: Any) -> httpx.Response:
    content = items if isinstance(items, bytes) else json.dumps(items).encode()
    return post(front, JOBS, params=query, files={"file": ("list.json", content)})


def create(client: openai.OpenAI, file_id: str, **options: Any) -> openai.types.Batch:
    batch: openai.types.Batch = client.batches.create(
        input_file_id=file_id, endpoint=ENDPOINT, completion_window="24h", **options
    )
    return batch


def test_files_live_as_openais_do(client: openai.OpenAI) -> None:
    content = jsonl(3)
    file = client.files.create(
        file=("stories.jsonl", content), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert (file.object, file.filename, file.bytes, file.purpose) == ("file", "stories.jsonl", len(content), "batch")
    assert file.expires_at == NOW + 3600
    assert client.files.retrieve(file.id) == file
    assert client.files.content(file.id).content == content
    assert client.files.content(file.id).text.splitlines() == content.decode().splitlines()
    assert [listed.id for listed in client.files.list()] == [file.id]
    deleted = client.files.delete(file.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (file.id, True, "file")
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)


def test_files_come_in_pages(client: openai.OpenAI, world: World) -> None:
    ids = [world.upload(owner="default") for _ in range(5)]
    assert [file.id for file in client.files.list(limit=2)] == ids[::-1]
    assert [file.id for file in client.files.list(limit=2, order="asc", purpose="batch")] == ids


def test_batches_live_as_openais_do(client: openai.OpenAI, world: World) -> None:
    file = client.files.create(file=jsonl(2), purpose="batch")
    batch = create(client, file.id, metadata={"run": "7"})
    assert (batch.object, batch.status, batch.input_file_id) == ("batch", "validating", file.id)
    assert batch.metadata == {"run": "7"}
    assert client.batches.retrieve(batch.id) == batch
    assert client.batches.cancel(batch.id).status == "cancelling"
    second = create(client, file.id)
    assert [listed.id for listed in client.batches.list(limit=1)] == [second.id, batch.id]
    assert world.num_changes == 3


def test_the_output_of_a_batch_is_read_by_its_id(client: openai.OpenAI, world: World) -> None:
    batch = create(client, world.upload(owner="default"))
    output = world.end(batch.id, jsonl(1), output_file_id=f"file-{len(jsonl(1)):032x}", total=1, completed=1)
    ended = client.batches.retrieve(batch.id)
    assert (ended.status, ended.output_file_id) == ("completed", output)
    assert ended.request_counts is not None
    assert ended.request_counts.completed == 1
    assert client.files.content(output).content == jsonl(1)


def test_errors_are_those_of_the_package(client: openai.OpenAI, world: World) -> None:
    with pytest.raises(openai.NotFoundError):
        create(client, f"file-{NO_ID}")
    with pytest.raises(openai.BadRequestError, match="purpose"):
        client.files.create(file=jsonl(), purpose="vision")
    with pytest.raises(openai.BadRequestError, match="empty"):
        client.files.create(file=("a", b""), purpose="batch")
    file_id = world.upload(owner="default")
    with pytest.raises(openai.BadRequestError, match="completion_window"):
        client.batches.create(input_file_id=file_id, endpoint=ENDPOINT, completion_window="1w")
    create(client, file_id)
    with pytest.raises(openai.ConflictError, match="has not ended"):
        client.files.delete(file_id)
    create(client, file_id)
    create(client, file_id)
    with pytest.raises(openai.RateLimitError, match="as many as this key may"):
        create(client, file_id)


@pytest.mark.parametrize("num_bytes", [FEW.max_file_bytes + 1, FEW.max_file_bytes + 70_000, 20_000_000])
def test_a_file_that_is_too_large_is_refused_and_the_client_learns_why(client: openai.OpenAI, num_bytes: int) -> None:
    with pytest.raises(openai.APIStatusError, match="more than 100000 bytes") as caught:
        client.files.create(file=b"x" * num_bytes, purpose="batch")
    assert caught.value.status_code == 413


def test_another_key_finds_nothing(front: Front, client: openai.OpenAI, world: World) -> None:
    file = client.files.create(file=jsonl(), purpose="batch")
    batch = create(client, file.id)
    with _openai(front, KEYS["other"]) as other:
        for operation in (other.files.retrieve, other.files.content, other.files.delete):
            with pytest.raises(openai.NotFoundError):
                operation(file.id)
        for operation in (other.batches.retrieve, other.batches.cancel):
            with pytest.raises(openai.NotFoundError):
                operation(batch.id)
        with pytest.raises(openai.NotFoundError):
            create(other, file.id)
        assert list(other.files.list()) == []
        assert list(other.batches.list()) == []
    assert client.batches.retrieve(batch.id).status == "validating"


def test_a_job_takes_a_list_and_gives_its_results(front: Front, world: World) -> None:
    response = post_job(front, [CHAT, CHAT], max_tokens=7, vocab_lang="es", vocab_n_words=100)
    assert response.status_code == 200, response.text
    job = response.json()
    assert (job["object"], job["status"], job["submitted_at"]) == ("batch.job", "pending", NOW)
    assert front.get(f"{JOBS}/{job['id']}").json() == job
    assert_error(front.get(f"{JOBS}/{job['id']}/results"), 409, code="job_not_finished")
    record = world.store.batch("default", job["id"])
    assert record is not None
    lines = world.contents.read(record.input_file_id, 0, 10_000).splitlines()
    body = {**CHAT, "model": MODEL, "max_tokens": 7, "vocab_lang": "es", "vocab_n_words": 100}
    assert [json.loads(line)["body"] for line in lines] == [body, body]
    world.end(job["id"], b'[{"a":1},\n{"b":2}]', output_file_id=f"file-{18:032x}", completed_at=NOW)
    results = front.get(f"{JOBS}/{job['id']}/results")
    assert results.headers["content-type"] == "application/json"
    assert results.json() == [{"a": 1}, {"b": 2}]
    assert front.get(f"{JOBS}/{job['id']}").json()["status"] == "completed"


@pytest.mark.parametrize(
    ("items", "query", "param"),
    [
        (b"{}", {}, "file"),
        (b"[]", {}, "file"),
        ([CHAT] * 6, {}, "file"),
        ([CHAT], {"max_token": 5}, "max_token"),
        ([CHAT], {"max_tokens": "many"}, "max_tokens"),
        ([CHAT], {"limit": 5}, "limit"),
        ([CHAT], {"top_k": [1, 2]}, "top_k"),
    ],
)
def test_a_bad_job_is_refused_by_name(front: Front, world: World, items: Any, query: Any, param: str) -> None:
    assert_error(post_job(front, items, **query), 400, param=param)
    assert world.num_contents() == 0


def test_the_key_in_the_query_is_no_parameter_of_a_job(front: Front, world: World) -> None:
    with front.client(key=None) as client:
        files = {"file": json.dumps([CHAT]).encode()}
        assert client.post(JOBS, params={"token": KEY, "max_tokens": 5}, files=files).status_code == 200


@pytest.mark.parametrize("size", [1, FEW_BYTES - 1, FEW_BYTES, FEW_BYTES + 1, FEW_BYTES + 2 * MANY_BYTES + 7])
def test_a_file_of_any_size_comes_whole(front: Front, tmp_path: Path, size: int) -> None:
    world = World(tmp_path, limits=BatchLimits())
    front.batches.service = world.service
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    file_id = world.upload(content, owner="default")
    response = front.get(f"/v1/files/{file_id}/content")
    assert response.headers["content-length"] == str(size)
    assert response.content == content
    world.close()


def test_an_output_without_a_line_is_an_empty_answer(front: Front, world: World) -> None:
    batch = world.batch(owner="default")["id"]
    response = front.get(f"/v1/files/{world.end(batch, b'')}/content")
    assert (response.status_code, response.content) == (200, b"")


def test_a_file_that_breaks_off_is_noticed(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, limits=BatchLimits())
    front.batches.service = world.service
    file_id = world.upload(b"x" * (FEW_BYTES + 1), owner="default")
    read = world.contents.read
    monkeypatch.setattr(world.contents, "read", lambda name, at, most: read(name, at, most) if at == 0 else b"")
    with pytest.raises(httpx.RemoteProtocolError):
        front.get(f"/v1/files/{file_id}/content")
    world.close()


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/v1/files?limit=x", "limit"),
        ("/v1/files?limit=0", "limit"),
        ("/v1/files?limit=-1", "limit"),
        ("/v1/files?limit=5&limit=5", "limit"),
        ("/v1/files?order=up", "order"),
        ("/v1/files?after=file-1", "after"),
        ("/v1/files?after=%00", "after"),
        ("/v1/files?purpose=vision", "purpose"),
        ("/v1/files?limits=5", "limits"),
        ("/v1/batches?order=asc", "order"),
        ("/v1/batches?limit=101", "limit"),
        ("/v1/batches?after=x", "after"),
    ],
)
def test_a_bad_query_of_a_list_is_refused_by_name(front: Front, world: World, path: str, param: str) -> None:
    assert_error(front.get(path), 400, param=param)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b"{}", "input_file_id"),
        (json.dumps({"input_file_id": "file-1", "endpoint": "x", "completion_window": "24h"}).encode(), "endpoint"),
    ],
)
def test_a_bad_body_of_a_batch_is_refused(front: Front, world: World, body: bytes, param: str | None) -> None:
    response = post(front, "/v1/batches", content=body, headers={"Content-Type": "application/json"})
    assert_error(response, 400, param=param)


def test_a_body_of_a_batch_is_json(front: Front, world: World) -> None:
    assert_error(post(front, "/v1/batches", data={"a": "b"}), 415)


BAD_FORMS: list[tuple[dict[str, Any], str | None, str]] = [
    ({"data": {"purpose": "batch"}}, None, "multipart"),
    ({"files": {"purpose": (None, "batch")}}, "file", "must provide a file"),
    ({"files": {"file": b"x"}}, "purpose", "purpose"),
    ({"files": {"file": b"x", "purpose": (None, "vision")}}, "purpose", "purpose"),
    ({"files": {"file": b"x", "purpose": (None, "batch"), "extra": (None, "1")}}, "extra", "Unknown part"),
    ({"files": [("file", b"x"), ("file", b"y"), ("purpose", (None, "batch"))]}, "file", "twice"),
    ({"files": {"file": b"x", "purpose": (None, "b" * (MAX_FIELD_BYTES + 1))}}, "purpose", "at most"),
    (
        {"files": {"file": b"x", "purpose": (None, "batch"), "expires_after[seconds]": (None, "3600")}},
        "expires_after.anchor",
        "created_at",
    ),
    (
        {
            "files": {
                "file": b"x",
                "purpose": (None, "batch"),
                "expires_after[anchor]": (None, "created_at"),
                "expires_after[seconds]": (None, "soon"),
            }
        },
        "expires_after.seconds",
        "3600",
    ),
]


@pytest.mark.parametrize(("form", "param", "cause"), BAD_FORMS)
def test_a_bad_form_is_refused_by_name(
    front: Front, world: World, form: dict[str, Any], param: str | None, cause: str
) -> None:
    response = post(front, "/v1/files", **form)
    assert cause in assert_error(response, 415 if "data" in form else 400, param=param)["message"]
    assert world.num_contents() == 0


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
def test_another_method_is_not_allowed(front: Front, world: World, method: str, path: str, allowed: str) -> None:
    with front.client() as client:
        response = client.request(method, path)
    assert_error(response, 405)
    assert set(response.headers["allow"].split(", ")) == set(allowed.split(", "))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files/",
        "/v1/files//content",
        "/v1/files/file-1/",
        "/v1/files/file-1/content/",
        "/v1/files/file-1/other",
        "/v1/files/../models",
        "/v1/files/%66ile-1",
        "/v1/files/file-1%2Fcontent",
        "/v1/files/FILE-1",
        "/v1/files/" + "a" * 65,
        "/v1/files/file-1%0a",
        "/v1/batches/batch_1/cancel/x",
        "/v1/batch",
        "/v1/batch/",
        f"{JOBS}/",
        f"{JOBS}/job_1/result",
    ],
)
def test_what_is_no_path_is_not_found(front: Front, world: World, path: str) -> None:
    assert front.send_raw(raw_request(path))[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/files/file-{NO_ID}",
        f"/v1/files/file-{NO_ID}/content",
        f"/v1/batches/batch_{NO_ID}",
        f"{JOBS}/job_{NO_ID}",
        f"{JOBS}/job_{NO_ID}/results",
        "/v1/files/x",
    ],
)
def test_what_is_not_there_is_not_found(front: Front, world: World, path: str) -> None:
    assert_error(front.get(path), 404)


def test_every_route_needs_a_key(front: Front, world: World) -> None:
    for path in ("/v1/files", "/v1/batches", f"{JOBS}/job_1"):
        assert front.send_raw(raw_request(path, key=None))[0] == 401
    assert front.send_raw(raw_request("/v1/files", method="POST", key=None))[0] == 401


def test_while_the_deployment_is_away_there_is_no_capacity(front: Front) -> None:
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
