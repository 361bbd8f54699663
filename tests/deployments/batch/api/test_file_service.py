"""What may be done with files."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deployments.batch.api.file_service import MAX_READ_BYTES
from deployments.batch.state.store import StoreError
from deployments.errors import BadRequestError, NotFoundError, OverloadedError, PayloadTooLargeError
from deployments.storage import StorageError
from tests.deployments.batch.full_disk import no_room
from tests.deployments.batch.served import FEW, ME, NOW, World, jsonl


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_an_uploaded_file_is_given_back_as_it_was(world: World) -> None:
    content = jsonl(3)
    file = world.service.create_file(ME, world.send(content, piece_bytes=7), "stories.jsonl", "batch")
    assert file["id"].startswith("file-")
    assert len(file["id"]) == 37
    assert (file["filename"], file["bytes"], file["purpose"]) == ("stories.jsonl", len(content), "batch")
    assert (file["created_at"], file["expires_at"]) == (NOW, NOW + FEW.retention_s)
    assert world.service.get_file(ME, file["id"]) == file
    assert world.service.read_file(ME, file["id"], 0, MAX_READ_BYTES) == content
    assert world.service.read_file(ME, file["id"], 10, 5) == content[10:15]
    assert world.service.read_file(ME, file["id"], len(content), 5) == b""


def test_a_file_may_ask_to_be_kept_for_less_and_not_for_more(world: World) -> None:
    kept = [world.service.get_file(ME, world.upload(expires_after_s=asked))["expires_at"] for asked in (3600, 10**9)]
    assert kept == [NOW + 3600, NOW + FEW.retention_s]


@pytest.mark.parametrize("purpose", ["", "fine-tune", "batch_output", "Batch"])
def test_only_inputs_of_batches_are_taken(world: World, purpose: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        world.service.create_file(ME, world.send(b"x"), "a", purpose)
    assert caught.value.param == "purpose"
    assert world.num_contents() == 0


def test_a_file_that_is_empty_or_too_large_is_refused(world: World) -> None:
    with pytest.raises(BadRequestError, match="empty"):
        world.service.begin_upload(ME, 0)
    world.upload(b"x" * FEW.max_file_bytes)
    with pytest.raises(PayloadTooLargeError):
        world.upload(b"x" * (FEW.max_file_bytes + 1))


def test_the_files_of_one_key_are_bounded_together(world: World) -> None:
    file_id = world.upload(b"x" * 100_000)
    with pytest.raises(BadRequestError) as caught:
        world.upload(b"x" * 50_001)
    assert caught.value.code == "storage_full"
    with pytest.raises(BadRequestError):
        world.job(b"x" * 50_001)
    world.upload(b"x" * 50_001, owner="other")
    world.service.delete_file(ME, file_id)
    world.upload(b"x" * 50_001)


def test_files_that_arrive_count_among_those_of_their_key(world: World) -> None:
    world.service.begin_upload(ME, 100_000)
    world.service.begin_upload("other", 100_000)
    with pytest.raises(BadRequestError) as caught:
        world.service.begin_upload(ME, 50_001)
    assert caught.value.code == "storage_full"


def test_of_uploads_that_end_at_once_no_more_are_kept_than_a_key_may_have(tmp_path: Path, database_url: str) -> None:
    """In two processes, of which neither knows what arrives in the other."""
    worlds = [World(tmp_path, database=database_url) for _ in range(2)]
    uploads = [(world, world.send(b"x" * 50_000, piece_bytes=50_000)) for world in worlds * 3]

    def end(upload: tuple[World, str]) -> str | None:
        world, upload_id = upload
        try:
            world.service.create_file(ME, upload_id, "a", "batch")
        except BadRequestError as error:
            return error.code
        return None

    with ThreadPoolExecutor(6) as threads:
        codes = list(threads.map(end, uploads))
    assert codes.count(None) == 3
    assert codes.count("storage_full") == 3
    assert worlds[0].store.num_files_bytes(ME) == FEW.max_bytes_per_key
    assert worlds[0].num_contents() == 3
    for world in worlds:
        world.close()


def test_a_list_that_is_longer_as_lines_is_bounded_as_such(world: World) -> None:
    world.upload(b"x" * 100_000)
    world.upload(b"x" * 49_800)
    with pytest.raises(BadRequestError) as caught:
        world.job(b'[{"a":1},{"a":1},{"a":1}]')
    assert caught.value.code == "storage_full"
    assert world.num_contents() == 2
    assert not world.store.open_batches()


@pytest.mark.parametrize("pieces", [[], [b"half"], [b"the whole", b" and more"]])
def test_an_upload_that_did_not_come_as_it_was_said_is_no_file(world: World, pieces: list[bytes]) -> None:
    upload_id = world.service.begin_upload(ME, len(b"the whole"))
    for piece in pieces:
        world.service.append(ME, upload_id, piece)
    with pytest.raises(OverloadedError, match="Send the file again"):
        world.service.create_file(ME, upload_id, "a", "batch")
    assert world.num_contents() == 0


def test_an_upload_is_taken_once_and_by_its_owner_only(world: World) -> None:
    upload_id = world.send(b"x")
    for operation in (
        lambda: world.service.append("other", upload_id, b"x"),
        lambda: world.service.create_file("other", upload_id, "a", "batch"),
    ):
        with pytest.raises(OverloadedError):
            operation()
    world.service.create_file(ME, upload_id, "a", "batch")
    with pytest.raises(OverloadedError):
        world.service.create_file(ME, upload_id, "a", "batch")


def test_an_upload_whose_pieces_stop_coming_is_forgotten(world: World) -> None:
    stalled, slow = (world.service.begin_upload(ME, 10) for _ in range(2))
    world.now += 100
    world.service.append(ME, slow, b"12345")
    world.now += 100
    world.upload()
    with pytest.raises(OverloadedError):
        world.service.append(ME, stalled, b"12345")
    world.service.append(ME, slow, b"67890")
    world.service.create_file(ME, slow, "a", "batch")
    assert world.num_contents() == 2


def test_an_upload_for_which_there_is_no_room_ends_at_once(world: World) -> None:
    upload_id = world.service.begin_upload(ME, 100_000)
    with no_room(2**12), pytest.raises(StorageError):
        world.service.append(ME, upload_id, bytes(100_000))
    assert world.num_contents() == 0


def test_files_are_listed_in_pages_in_both_orders_and_by_purpose(world: World) -> None:
    ids = [world.upload() for _ in range(3)]
    batch = world.batch(file_id=ids[0])["id"]
    output = world.end(batch)
    listed = world.service.list_files
    assert [file["id"] for file in listed(ME)["data"]] == [output, *reversed(ids)]
    assert [file["id"] for file in listed(ME, "batch", None, 2, "asc")["data"]] == ids[:2]
    assert [file["id"] for file in listed(ME, "batch", ids[1], 2, "asc")["data"]] == ids[2:]
    assert [file["id"] for file in listed(ME, "batch_output")["data"]] == [output]
    assert listed("other") == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"purpose": "vision"}, "purpose"),
        ({"limit": 0}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "file-1"}, "after"),
    ],
)
def test_a_list_that_cannot_be_is_refused(world: World, options: dict[str, object], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        world.service.list_files(ME, **options)  # type: ignore[arg-type]
    assert caught.value.param == param


@pytest.mark.parametrize("file_id", ["file-" + "0" * 32, "", "file-\0", "../in.jsonl", "x" * 10_000, "file-ä"])
def test_a_file_that_is_not_there_is_not_found(world: World, file_id: str) -> None:
    for operation in (world.service.get_file, world.service.delete_file):
        with pytest.raises(NotFoundError):
            operation(ME, file_id)
    with pytest.raises(NotFoundError):
        world.service.read_file(ME, file_id, 0, 1)


def test_the_file_of_another_owner_is_not_found_and_stays(world: World) -> None:
    theirs = world.upload(owner="other")
    for operation in (world.service.get_file, world.service.delete_file):
        with pytest.raises(NotFoundError):
            operation(ME, theirs)
    with pytest.raises(NotFoundError):
        world.service.read_file(ME, theirs, 0, 1)
    assert world.service.read_file("other", theirs, 0, 10) == jsonl()[:10]


@pytest.mark.parametrize(("offset", "num_bytes"), [(-1, 1), (0, 0), (0, -1), (0, MAX_READ_BYTES + 1)])
def test_a_piece_of_a_file_is_bounded(world: World, offset: int, num_bytes: int) -> None:
    with pytest.raises(BadRequestError):
        world.service.read_file(ME, world.upload(), offset, num_bytes)


def test_a_deleted_file_is_gone_with_what_it_held(world: World) -> None:
    file_id = world.upload()
    assert world.service.delete_file(ME, file_id) == {"id": file_id, "object": "file", "deleted": True}
    assert world.num_contents() == 0
    with pytest.raises(NotFoundError):
        world.service.get_file(ME, file_id)


def test_a_file_whose_contents_are_gone_is_not_found(world: World) -> None:
    file_id = world.upload()
    world.contents.delete(file_id)
    with pytest.raises(NotFoundError):
        world.service.read_file(ME, file_id, 0, 1)


def test_contents_without_a_record_do_not_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise StoreError("no answer")

    monkeypatch.setattr(world.store, "add_file", unreachable)
    with pytest.raises(StoreError):
        world.upload()
    assert world.num_contents() == 0


def test_a_file_is_deleted_even_if_its_contents_stay(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stuck(*_: object) -> None:
        raise StorageError("read-only file system")

    file_id = world.upload()
    monkeypatch.setattr(world.contents, "delete", stuck)
    world.service.delete_file(ME, file_id)
    assert "read-only" in caplog.text
