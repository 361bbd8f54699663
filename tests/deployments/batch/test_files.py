"""Files over HTTP, and how an upload passes from the front to the deployment in pieces."""

from typing import Any

import httpx2
import openai
import pytest
from openai.types import FileDeleted, FileObject

from deployments.errors import OverloadedError
from deployments.storage import Location, PartialFile, StorageError
from tests.deployments.batch.full_disk import no_room
from tests.deployments.batch.world import FEW, NOW, OWNER, BatchWorld, jsonl, raising
from tests.deployments.front import assert_error

ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"


def upload(client: httpx2.Client, content: bytes = b"x\n", **fields: str) -> httpx2.Response:
    return client.post("/v1/files", files={"file": ("in.jsonl", content)}, data={"purpose": "batch", **fields})


def listed(client: httpx2.Client, query: str = "") -> list[str]:
    return [file["id"] for file in client.get(f"/v1/files{query}").json()["data"]]


def test_files_live_as_openais_do(client: httpx2.Client, small: BatchWorld) -> None:
    files = openai.OpenAI(
        base_url="http://localhost/v1", api_key=client.headers["authorization"][7:], http_client=client
    ).files
    content = jsonl(3)
    expires_after = {"anchor": "created_at", "seconds": 3600}
    file = files.create(file=("stories.jsonl", content), purpose="batch", expires_after=expires_after)
    shown = client.get(f"/v1/files/{file.id}").json()
    assert FileObject.model_validate(shown, strict=True).to_dict() == shown == file.to_dict()
    assert (len(file.id), file.filename, file.bytes, file.purpose) == (37, "stories.jsonl", len(content), "batch")
    assert (file.created_at, file.expires_at) == (NOW, NOW + 3600)
    assert files.content(file.id).content == content
    # None is kept longer than others.
    longest = files.create(file=content, purpose="batch", expires_after={**expires_after, "seconds": 2592000})
    assert longest.expires_at == upload(client).json()["expires_at"] == NOW + FEW.retention_s
    assert [one.id for one in files.list()][2:] == [file.id]
    deleted = client.delete(f"/v1/files/{file.id}").json()
    assert FileDeleted.model_validate(deleted, strict=True).to_dict() == deleted
    assert small.num_contents() == 2
    with pytest.raises(openai.NotFoundError):
        files.retrieve(file.id)


def test_files_come_in_pages_in_both_orders_and_by_purpose(
    client: httpx2.Client, other: httpx2.Client, small: BatchWorld
) -> None:
    ids = [upload(client).json()["id"] for _ in range(3)]
    output = small.end(small.batch(file_id=ids[0])["id"])
    assert listed(client) == [output, *reversed(ids)]
    assert listed(client, f"?purpose=batch&limit=1&order=asc&after={ids[0]}") == ids[1:2]
    page = client.get("/v1/files?limit=2").json()
    assert (page["first_id"], page["last_id"], page["has_more"]) == (output, ids[2], True)
    empty: dict[str, Any] = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert other.get("/v1/files").json() == empty


def test_a_bad_query_of_a_list_is_refused_by_name(client: httpx2.Client) -> None:
    for path in ("files", "batches"):
        for query, param in [
            ("limit=x", "limit"), ("limit=0", "limit"), ("limit=-1", "limit"), ("limit=10001", "limit"),
            ("limit=5&limit=5", "limit"), ("after=x", "after"), ("after=", "after"), ("after=%00", "after"),
            (f"after=batch_{'0' * 32}", "after"), ("order=up", "order"), ("purpose=vision", "purpose"),
            ("limits=5", "limits"),
        ]:  # fmt: skip
            assert_error(client.get(f"/v1/{path}?{query}"), 400, param=param)
    assert_error(client.get("/v1/batches?limit=101"), 400, param="limit")


def test_a_bad_form_is_refused_by_name(client: httpx2.Client, small: BatchWorld) -> None:
    """``test_uploads`` has what is no form at all."""
    assert_error(client.post("/v1/files", data={"purpose": "batch"}), 415)
    assert_error(client.post("/v1/files", files={"file": b"x"}), 400, param="purpose")
    for purpose in ("", "fine-tune", "batch_output", "Batch", "vision", "b" * 1025):
        assert_error(upload(client, purpose=purpose), 400, param="purpose")
    for expiry, param in (
        ({SECONDS: "3600"}, "anchor"),
        ({ANCHOR: "created_at"}, "seconds"),
        ({ANCHOR: "created_at", SECONDS: "soon"}, "seconds"),
        ({ANCHOR: "created_at", SECONDS: "3599"}, "seconds"),
    ):
        error = assert_error(upload(client, b"x", **expiry), 400, param=f"expires_after.{param}")
        assert param in error["message"]
    assert_error(upload(client, extra="1"), 400, param="extra")
    assert "empty" in assert_error(upload(client, b""), 400, param="file")["message"]
    assert small.num_contents() == 0


def test_the_files_of_a_key_are_bounded_together(
    client: httpx2.Client, other: httpx2.Client, small: BatchWorld
) -> None:
    def is_full() -> bool:
        response = upload(client, b"x" * 50_001)
        if response.status_code != 200:
            assert_error(response, 400, param="file", code="storage_full")
        return response.status_code != 200

    file_id = upload(client, b"x" * 100_000).json()["id"]
    assert is_full()
    assert_error(client.post("/v1/batch/jobs", files={"file": b"x" * 50_001}), 400, param="file", code="storage_full")
    assert upload(other, b"x" * 50_001).status_code == 200
    client.delete(f"/v1/files/{file_id}")
    # What arrives counts too, and a list as long as it is as lines.
    arriving = small.service.begin_upload(OWNER, 100_000)
    assert is_full()
    small.service.append(OWNER, arriving, b"x" * 100_000)
    small.service.create_file(OWNER, arriving, "a", "batch")
    upload(client, b"x" * 49_800)
    jobs = client.post("/v1/batch/jobs", files={"file": b'[{"a":1},{"a":1},{"a":1}]'})
    assert_error(jobs, 400, param="file", code="storage_full")
    assert not small.store.open_batches()
    assert small.num_contents() == 3


def test_an_upload_that_did_not_come_as_it_was_said_is_no_file(small: BatchWorld) -> None:
    for pieces in ([], [b"half"], [b"the whole", b" and more"]):
        upload_id = small.service.begin_upload(OWNER, len(b"the whole"))
        for piece in pieces:
            small.service.append(OWNER, upload_id, piece)
        with pytest.raises(OverloadedError, match="Send the file again"):
            small.service.create_file(OWNER, upload_id, "a", "batch")
    assert small.num_contents() == 0


def test_an_upload_is_taken_once_and_by_its_owner_only(small: BatchWorld) -> None:
    upload_id = small.send(b"x")
    with pytest.raises(OverloadedError):
        small.service.append("other", upload_id, b"x")
    with pytest.raises(OverloadedError):
        small.service.create_file("other", upload_id, "a", "batch")
    small.service.create_file(OWNER, upload_id, "a", "batch")
    with pytest.raises(OverloadedError):
        small.service.create_file(OWNER, upload_id, "a", "batch")


def test_an_upload_whose_pieces_stop_coming_is_forgotten(small: BatchWorld) -> None:
    stalled, slow = (small.service.begin_upload(OWNER, 10) for _ in range(2))
    small.now += 100
    small.service.append(OWNER, slow, b"12345")
    small.now += 100
    small.upload()
    with pytest.raises(OverloadedError):
        small.service.append(OWNER, stalled, b"12345")
    small.service.append(OWNER, slow, b"67890")
    small.service.create_file(OWNER, slow, "a", "batch")
    assert small.num_contents() == 2


def test_an_upload_for_which_there_is_no_room_ends_at_once(small: BatchWorld) -> None:
    upload_id = small.service.begin_upload(OWNER, 100_000)
    with no_room(2**12), pytest.raises(StorageError):
        small.service.append(OWNER, upload_id, bytes(100_000))
    assert small.num_contents() == 0


def test_a_file_that_is_not_ones_own_is_not_found_and_stays(
    client: httpx2.Client, other: httpx2.Client, small: BatchWorld
) -> None:
    theirs = upload(other, jsonl()).json()["id"]
    for file_id in (theirs, f"file-{'0' * 32}", "file-%00", "..%2Fin.jsonl", "x", "x" * 64, "file-%C3%A4"):
        for response in (client.get(f"/v1/files/{file_id}"), client.delete(f"/v1/files/{file_id}")):
            assert response.status_code == 404
        assert client.get(f"/v1/files/{file_id}/content").status_code == 404
    assert other.get(f"/v1/files/{theirs}/content").content == jsonl()


def test_a_file_whose_contents_are_gone_is_not_found_and_one_that_is_cut_short_our_fault(
    client: httpx2.Client, small: BatchWorld
) -> None:
    file_id = upload(client, b"all of it").json()["id"]
    small.files.child(file_id).write([b"all of"])
    assert_error(client.get(f"/v1/files/{file_id}/content"), 500, code="internal_error")
    small.files.child(file_id).delete()
    assert_error(client.get(f"/v1/files/{file_id}/content"), 404)


def test_contents_without_a_record_do_not_stay(
    client: httpx2.Client, small: BatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small.store, "add_file", raising(RuntimeError("no answer")))
    assert upload(client).status_code == 500
    assert small.num_contents() == 0


def test_a_file_is_deleted_even_if_its_contents_stay(
    client: httpx2.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file_id = upload(client).json()["id"]
    monkeypatch.setattr(Location, "delete", raising(StorageError("read-only file system")))
    assert client.delete(f"/v1/files/{file_id}").status_code == 200
    assert "read-only" in caplog.text


@pytest.mark.fault(47)
def test_where_nothing_can_be_written_nothing_is_promised(
    client: httpx2.Client, small: BatchWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 47 of the faults."""
    monkeypatch.setattr(PartialFile, "write", raising(StorageError("no space left on device")))
    for response in (upload(client), client.post("/v1/batch/jobs", files={"file": b"[{}]"})):
        error = assert_error(response, 503, code="storage_unavailable")
        assert "no space" not in error["message"]
    assert "no space" in caplog.text
    assert listed(client) == []
    assert small.store.open_batches() == []
