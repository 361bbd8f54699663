"""Loading at run time: all replicas have an adapter, or none has; and the register is what it says afterwards."""

import asyncio
import fcntl
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from deployments import adapter_register
from deployments.adapter_register import Register, Registered
from deployments.errors import ApiError, BadRequestError, ConflictError, ModelNotFoundError, OverloadedError
from deployments.ingress.adapter_loader import PRELOAD, SYNC, AdapterLoader
from deployments.protocol.reader import AdapterNames
from deployments.settings.service import Settings
from tests.tiny_adapters import DAMAGES, damaged, write_adapter, write_model
from vocab.adapters import WEIGHTS, AdapterError


class Service:
    """Two replicas that answer as a test wants, and a loader of each of two ingresses."""

    def __init__(self, folder: Path, **args: Any) -> None:
        self.settings = Settings.load(
            {
                "secret_token": "k",
                "model_id": "base",
                "lora_dir": str(folder / "lora"),
                "lora": {"fixed": "/a"},
                **args,
            },
            {},
        )
        self.register = Register(folder / "lora")
        self.answers: list[Any] = [None, None]
        self.calls: list[str] = []
        self.seen: list[dict[str, Registered]] = []
        self.loaders = [AdapterLoader(self.settings, self.call_all) for _ in range(2)]
        self.load = self.loaders[0].load
        self.unload = self.loaders[1].unload

    async def call_all(self, method: str, *arguments: Any) -> list[Any]:
        await asyncio.sleep(0)
        self.calls.append(method)
        self.seen.append(self.register.read())
        return self.answers if method == PRELOAD else [None, None]

    @property
    def copies(self) -> set[str]:
        return {path.name for path in self.register.folder.iterdir() if path.is_dir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    model = write_model(None, folder / "model")
    for name, options in (("poet", {}), ("other", {"r": 8})):
        write_adapter(model, folder / name, {"languages": ["en"]}, **options)
    return folder


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


async def fault(work: Any, kind: type[ApiError] = BadRequestError) -> str:
    with pytest.raises(kind) as error:
        await work
    assert "\n" not in error.value.message
    return error.value.message


async def test_an_adapter_exists_once_every_replica_has_loaded_it(service: Service, made: Path) -> None:
    names = AdapterNames.of(service.settings)
    await service.load("poet", str(made / "poet"), replaces=False)
    assert service.calls == [PRELOAD, SYNC]
    assert [list(seen) for seen in service.seen] == [[], ["poet"]]
    assert service.register.read()["poet"].source == str(made / "poet")
    assert service.register.adapter("poet", service.register.read()["poet"]).card is not None
    assert "poet" in names and "fixed" in names
    await service.unload("poet")
    assert service.calls == [PRELOAD, SYNC, SYNC]
    assert not service.register.read() and "poet" not in names
    assert "cannot be found" in await fault(service.unload("poet"), ModelNotFoundError)


async def test_another_one_takes_its_place_only_when_asked_to(service: Service, made: Path) -> None:
    await service.load("poet", str(made / "poet"), replaces=False)
    first = service.register.read()["poet"]
    assert "already been loaded" in await fault(service.load("poet", str(made / "other"), replaces=False))
    assert service.register.read() == {"poet": first}
    await service.load("poet", str(made / "other"), replaces=True)
    assert service.register.read()["poet"].copy != first.copy
    # Requests may still have the first.
    assert first.copy in service.copies
    await service.load("same", str(made / "other"), replaces=False)
    assert len(service.copies) == 2


@pytest.mark.parametrize(
    ("answers", "kind", "message"),
    [
        ([None, "adapter poet: it is bad"], BadRequestError, "Adapter poet: it is bad."),
        ([None, TimeoutError()], OverloadedError, "A replica did not load it in time"),
        ([], OverloadedError, "No replica runs"),
        ([ActorDiedError(), ActorDiedError()], OverloadedError, "No replica runs"),
    ],
)
async def test_one_that_a_replica_does_not_take_leaves_nothing(
    service: Service, made: Path, answers: list[Any], kind: type[ApiError], message: str
) -> None:
    await service.load("other", str(made / "other"), replaces=False)
    before = service.register.read(), service.copies
    service.answers = answers
    assert message in await fault(service.load("poet", str(made / "poet"), replaces=False), kind)
    assert message in await fault(service.load("other", str(made / "poet"), replaces=True), kind)
    assert (service.register.read(), service.copies) == before


async def test_an_error_of_ours_leaves_nothing_and_a_replica_that_died_is_none(service: Service, made: Path) -> None:
    service.answers = [None, KeyError("x")]
    with pytest.raises(KeyError):
        await service.load("poet", str(made / "poet"), replaces=False)
    assert not service.register.read() and not service.copies
    service.answers = [None, ActorDiedError()]
    await service.load("poet", str(made / "poet"), replaces=False)
    assert "poet" in service.register.read()


OF_THE_MODEL = {"whole modules", "a bias", "other modules", "more layers", "another size"}
"""What a model does not have or an engine does not apply, replicas find."""


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - OF_THE_MODEL))
async def test_a_damaged_one_is_refused_and_leaves_nothing(
    service: Service, made: Path, tmp_path: Path, name: str
) -> None:
    damage, _ = DAMAGES[name]
    folder = damaged(made / "poet", tmp_path / "damaged", damage)
    assert (await fault(service.load("poet", str(folder), replaces=False))).startswith("Adapter poet: ")
    assert not service.register.read() and not service.copies and not service.calls


@pytest.mark.parametrize(
    ("name", "message"),
    [("base", "model's own name"), ("fixed", "one of the settings"), ("auto", "other than auto"), ("a b", "letters")],
)
async def test_names_that_are_taken_or_none_are_refused(service: Service, made: Path, name: str, message: str) -> None:
    assert message in await fault(service.load(name, str(made / "poet"), replaces=True))
    if name == "fixed":
        assert message in await fault(service.unload(name))


async def test_without_the_setting_it_is_named(tmp_path: Path) -> None:
    for loader in Service(tmp_path, lora_dir=None).loaders:
        for work in (loader.load("a", "/a", replaces=False), loader.unload("a")):
            assert "set lora_dir to a folder that all nodes share" in await fault(work)
    service = Service(tmp_path, lora_merge=True)
    assert "set lora_merge: false and lora_dir" in await fault(service.load("a", "/a", replaces=False))
    assert Register.of(service.settings) is None


async def test_changes_follow_one_another(service: Service, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"poet-{number}" for number in range(4)]
    work = [
        service.loaders[number % 2].load(name, str(made / "poet"), replaces=False) for number, name in enumerate(names)
    ]
    await asyncio.gather(*work)
    assert sorted(service.register.read()) == names
    assert service.calls == [PRELOAD, SYNC] * 4
    monkeypatch.setattr(adapter_register, "_WAIT_S", 0.2)
    with (service.register.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "Another adapter" in await fault(service.unload("poet-1"), OverloadedError)


async def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path, made: Path) -> None:
    (tmp_path / "lora").write_text("no folder")
    assert "lora_dir cannot be used" in await fault(
        Service(tmp_path).load("a", str(made / "poet"), replaces=False), ConflictError
    )


@pytest.mark.parametrize("content", ["{", "[]", '{"adapters": {"a": {"b": 1}}}'])
async def test_a_damaged_register_is_told(service: Service, made: Path, content: str) -> None:
    service.register.folder.mkdir()
    service.register.path.write_text(content)
    with pytest.raises(AdapterError, match=r"register\.json cannot be read"):
        service.register.read()
    result = await fault(service.load("a", str(made / "poet"), replaces=False), ConflictError)
    assert "mend or delete it" in result


async def test_copies_that_nobody_has_are_deleted_after_a_while(service: Service, made: Path) -> None:
    await service.load("poet", str(made / "poet"), replaces=False)
    poet = service.register.read()["poet"].copy
    await service.unload("poet")
    (service.register.folder / ".copy-1").mkdir()
    (service.register.folder / "of-somebody-else").mkdir()
    for path in service.register.folder.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    await service.load("other", str(made / "other"), replaces=False)
    assert service.copies == {service.register.read()["other"].copy, "of-somebody-else"}
    assert poet not in service.copies


async def test_a_copy_that_is_not_whole_is_made_again(service: Service, made: Path) -> None:
    await service.load("poet", str(made / "poet"), replaces=False)
    copy = service.register.folder / service.register.read()["poet"].copy
    (copy / WEIGHTS).unlink()
    await service.load("poet", str(made / "poet"), replaces=True)
    assert (copy / WEIGHTS).read_bytes() == (made / "poet" / WEIGHTS).read_bytes()
