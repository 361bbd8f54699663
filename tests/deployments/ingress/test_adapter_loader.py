"""Loading at run time: all replicas have an adapter, or none has; and the register is what it says afterwards.

Over HTTP, with two ingresses of one service.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from ray.exceptions import ActorDiedError

from deployments.adapter_files import WEIGHTS, AdapterError
from deployments.adapter_register import Register, Registered
from deployments.settings.keys import Key
from deployments.settings.service import Settings
from tests.deployments.front import CHAT, KEY, KEY_SETTINGS, KEYS, MODEL, assert_error, chat_body, client_of
from tests.deployments.ingress.test_refusals import LOAD, UNLOAD
from tests.deployments.stand_in import StandIn
from tests.tiny_adapters import DAMAGES, damaged, write_adapter, write_model

PRELOAD, SYNC = "preload_adapter", "sync_adapters"
"""What replicas are asked to do."""


class Service(StandIn):
    """Two replicas that answer as a test wants, and clients of two ingresses: one that loads, and one that unloads."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder / "lora"
        self.register = Register(self.folder)
        self.answers: list[Any] = [None, None]
        self.methods: list[str] = []
        self.seen: list[dict[str, Registered]] = []
        self.clients: list[httpx2.AsyncClient] = []

    async def call_all(self, method: str, *arguments: Any) -> list[Any]:
        await asyncio.sleep(0)
        self.methods.append(method)
        self.seen.append(self.register.read())
        return self.answers if method == PRELOAD else [None, None]

    async def load(self, name: str, source: Path | str, *, of: int = 0, **fields: Any) -> httpx2.Response:
        return await self.clients[of].post(LOAD, json={"lora_name": name, "lora_path": str(source), **fields})

    async def unload(self, name: str) -> httpx2.Response:
        return await self.clients[1].post(UNLOAD, json={"lora_name": name})

    @property
    def copies(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.is_dir()} if self.folder.is_dir() else set()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    model = write_model(None, folder / "model")
    for name, options in (("poet", {}), ("other", {"r": 8})):
        write_adapter(model, folder / name, {"languages": ["en"]}, **options)
    return folder


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    service = Service(tmp_path)
    keys = {**KEY_SETTINGS, "default": Key(operator=True)}
    async with AsyncExitStack() as stack:
        for _ in range(2):
            client = client_of(service, key=KEY, keys=keys, lora={"fixed": "/a"}, lora_dir=service.folder)
            service.clients.append(await stack.enter_async_context(client))
        yield service


def refused(
    answer: httpx2.Response, status: int = 400, code: str | None = None, param: str | None = "lora_path"
) -> str:
    """Why nothing was loaded or unloaded, in one line."""
    message: str = assert_error(answer, status, param=param, code=code)["message"]
    assert "\n" not in message
    return message


async def test_an_adapter_exists_once_every_replica_has_loaded_it(service: Service, made: Path) -> None:
    client, poet = service.clients[1], str(made / "poet")
    loaded = await service.load("poet", poet)
    assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'poet' added successfully.")
    assert service.methods == [PRELOAD, SYNC]
    assert [list(seen) for seen in service.seen] == [[], ["poet"]]
    assert service.register.read()["poet"].source == poet
    assert service.register.adapter("poet", service.register.read()["poet"]).card is not None
    cards = (await client.get("/v1/models")).json()["data"]
    assert [(card["id"], card.get("parent"), card.get("root")) for card in cards] == [
        (MODEL, None, None), ("fixed", MODEL, "/a"), ("poet", MODEL, poet),
    ]  # fmt: skip
    assert (await client.get("/v1/models/poet")).json()["root"] == poet
    asked: list[dict[str, Any]] = [{"model": "poet"}, {"vocab": {"lang": "en", "n_words": 500, "adapter": "poet"}}]
    assert [(await client.post(CHAT, json=chat_body(**one))).status_code for one in asked] == [200, 200]
    gone = await service.unload("poet")
    assert gone.text == "Success: LoRA adapter 'poet' removed successfully."
    assert service.methods == [PRELOAD, SYNC, SYNC]
    assert not service.register.read()
    for one, param in zip(asked, ("model", "vocab.adapter"), strict=True):
        assert_error(await client.post(CHAT, json=chat_body(**one)), 404, param=param, code="model_not_found")
    assert_error(await client.get("/v1/models/poet"), 404, param="model", code="model_not_found")
    assert "cannot be found" in refused(await service.unload("poet"), 404, "model_not_found", "lora_name")


async def test_another_one_takes_its_place_only_when_asked_to(service: Service, made: Path) -> None:
    await service.load("poet", made / "poet")
    first = service.register.read()["poet"]
    assert "already been loaded" in refused(await service.load("poet", made / "other"), param="lora_name")
    assert service.register.read() == {"poet": first}
    assert (await service.load("poet", made / "other", load_inplace=True)).status_code == 200
    assert service.register.read()["poet"].copy != first.copy
    # Requests may still have the first.
    assert first.copy in service.copies
    await service.load("same", made / "other")
    assert len(service.copies) == 2


@pytest.mark.fault(65)
async def test_one_that_a_replica_does_not_take_leaves_nothing(service: Service, made: Path) -> None:
    await service.load("other", made / "other")
    before = service.register.read(), service.copies
    for answers, status, code, message in (
        ([None, "adapter poet: it is bad"], 400, None, "Adapter poet: it is bad."),
        ([None, TimeoutError()], 503, "overloaded", "A replica did not load it in time"),
        ([], 503, "overloaded", "No replica runs"),
        ([ActorDiedError(), ActorDiedError()], 503, "overloaded", "No replica runs"),
        ([None, KeyError("x")], 500, "internal_error", "The server failed"),
    ):
        service.answers = answers
        param = "lora_path" if status == 400 else None
        for answer in (
            await service.load("poet", made / "poet"),
            await service.load("other", made / "poet", load_inplace=True),
        ):
            assert message in refused(answer, status, code, param)
        assert (service.register.read(), service.copies) == before
    # One that died reads the register when it is started again.
    service.answers = [None, ActorDiedError()]
    await service.load("poet", made / "poet")
    assert "poet" in service.register.read()


async def test_a_damaged_one_is_refused_and_leaves_nothing(service: Service, made: Path, tmp_path: Path) -> None:
    damage, _ = DAMAGES["numbers that are none"]
    folder = damaged(made / "poet", tmp_path / "damaged", damage)
    assert refused(await service.load("poet", folder)).startswith("Adapter poet: ")
    assert not service.register.read() and not service.copies and not service.methods


async def test_names_that_are_taken_or_none_are_refused_and_only_operators_may(service: Service, made: Path) -> None:
    for name, message in (
        (MODEL, "model's own name"), ("fixed", "one of the settings"), ("auto", "other than auto"), ("a b", "letters"),
    ):  # fmt: skip
        told = refused(await service.load(name, made / "poet", load_inplace=True), param="lora_name")
        assert message in told, name
    assert "one of the settings" in refused(await service.unload("fixed"), param="lora_name")
    for path in (LOAD, UNLOAD):
        answer = await service.clients[0].post(path, json={"lora_name": "a"}, headers={"X-API-Key": KEYS["other"]})
        assert "operator: true" in assert_error(answer, 403, code="insufficient_permissions")["message"]


async def test_without_the_setting_it_is_named(tmp_path: Path) -> None:
    keys = {"default": Key(operator=True)}
    merged: dict[str, Any] = {"lora": {"fixed": "/a"}, "lora_merge": True, "lora_dir": tmp_path}
    without: dict[str, Any] = {}
    for settings, code, message in (
        (without, "lora_dir_missing", "set lora_dir to a folder that all nodes share"),
        (merged, "lora_merged", "set lora_merge: false and lora_dir"),
    ):
        async with client_of(key=KEY, keys=keys, **settings) as client:
            for path, body in ((LOAD, {"lora_name": "a", "lora_path": "/a"}), (UNLOAD, {"lora_name": "a"})):
                assert message in refused(await client.post(path, json=body), code=code, param=None)
    assert Register.of(Settings(secret_token="k", **merged)) is None


async def test_changes_follow_one_another(service: Service, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"poet-{number}" for number in range(4)]
    await asyncio.gather(*(service.load(name, made / "poet", of=number % 2) for number, name in enumerate(names)))
    assert sorted(service.register.read()) == names
    assert service.methods == [PRELOAD, SYNC] * 4
    monkeypatch.setattr("deployments.adapter_register._WAIT_S", 0.2)
    with (service.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "Another adapter" in refused(await service.unload("poet-1"), 503, "overloaded", None)


async def test_a_folder_or_a_register_that_cannot_be_used_is_told(service: Service, made: Path) -> None:
    service.folder.write_text("no folder")
    answer = await service.load("a", made / "poet")
    assert "lora_dir cannot be used" in refused(answer, 409, "lora_dir_unusable", None)
    service.folder.unlink()
    service.folder.mkdir()
    for content in ("{", "[]", '{"adapters": {"a": {"b": 1}}}'):
        service.register.path.write_text(content)
        with pytest.raises(AdapterError, match=r"register\.json cannot be read"):
            service.register.read()
        answer = await service.load("a", made / "poet")
        assert "mend or delete it" in refused(answer, 409, "lora_dir_unusable", None), content


async def test_copies_that_nobody_has_are_deleted_after_a_while(service: Service, made: Path) -> None:
    await service.load("poet", made / "poet")
    poet = service.register.read()["poet"].copy
    await service.unload("poet")
    (service.folder / ".copy-1").mkdir()
    (service.folder / "of-somebody-else").mkdir()
    for path in service.folder.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    await service.load("other", made / "other")
    assert service.copies == {service.register.read()["other"].copy, "of-somebody-else"}
    assert poet not in service.copies


async def test_a_copy_that_is_not_whole_is_made_again(service: Service, made: Path) -> None:
    await service.load("poet", made / "poet")
    copy = service.folder / service.register.read()["poet"].copy
    (copy / WEIGHTS).unlink()
    await service.load("poet", made / "poet", load_inplace=True)
    assert (copy / WEIGHTS).read_bytes() == (made / "poet" / WEIGHTS).read_bytes()
