"""The routes that load adapters, and what the others make of what was loaded."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.settings.keys import Key
from tests.deployments.front import CHAT, KEY, KEY_SETTINGS, KEYS, MODEL, assert_error, chat_body, client_of
from tests.tiny_adapters import write_adapter, write_model

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    keys = {**KEY_SETTINGS, "default": Key(operator=True)}
    lora: dict[str, Any] = {"lora": {"fixed": "/a"}, "lora_dir": tmp_path / "lora"}
    async with client_of(key=KEY, keys=keys, **lora) as made:
        yield made


@pytest.fixture(scope="module")
def poet(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("made")
    return str(write_adapter(write_model(None, folder / "model"), folder / "poet"))


async def test_an_adapter_is_loaded_listed_used_and_unloaded(client: httpx.AsyncClient, poet: str) -> None:
    loaded = await client.post(LOAD, json={"lora_name": "poet", "lora_path": poet})
    assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'poet' added successfully.")
    cards = (await client.get("/v1/models")).json()["data"]
    assert [(card["id"], card.get("parent"), card.get("root")) for card in cards] == [
        (MODEL, None, None),
        ("fixed", MODEL, "/a"),
        ("poet", MODEL, poet),
    ]
    assert (await client.get("/v1/models/poet")).json()["root"] == poet
    asked: list[dict[str, Any]] = [{"model": "poet"}, {"vocab": {"lang": "en", "n_words": 500, "adapter": "poet"}}]
    assert [(await client.post(CHAT, json=chat_body(**one))).status_code for one in asked] == [200, 200]
    again = await client.post(LOAD, json={"lora_name": "poet", "lora_path": poet})
    assert_error(again, 400, param="lora_name")
    replaced = await client.post(LOAD, json={"lora_name": "poet", "lora_path": poet, "load_inplace": True})
    assert replaced.status_code == 200
    gone = await client.post(UNLOAD, json={"lora_name": "poet"})
    assert gone.text == "Success: LoRA adapter 'poet' removed successfully."
    for one, param in zip(asked, ("model", "vocab.adapter"), strict=True):
        assert_error(await client.post(CHAT, json=chat_body(**one)), 404, param=param, code="model_not_found")
    assert_error(await client.get("/v1/models/poet"), 404, param="model", code="model_not_found")
    unknown = await client.post(UNLOAD, json={"lora_name": "poet"})
    assert_error(unknown, 404, param="lora_name", code="model_not_found")


@pytest.mark.parametrize("path", [LOAD, UNLOAD])
async def test_only_operators_may(client: httpx.AsyncClient, path: str) -> None:
    headers = {"X-API-Key": KEYS["other"]}
    answer = await client.post(path, json={"lora_name": "poet"}, headers=headers)
    assert "operator: true" in assert_error(answer, 403, code="insufficient_permissions")["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (LOAD, {"lora_name": "a", "lora_path": "/a", "is_3d_lora_weight": False}, "is_3d_lora_weight"),
        (UNLOAD, {"lora_name": "a", "lora_int_id": 1}, "lora_int_id"),
        (LOAD, {"lora_name": "a"}, "lora_path"),
        (LOAD, {"lora_name": "a", "lora_path": ""}, "lora_path"),
        (LOAD, {"lora_name": 1, "lora_path": "/a"}, "lora_name"),
        (LOAD, {"lora_name": "a", "lora_path": "/a", "load_inplace": "yes"}, "load_inplace"),
        (LOAD, {"lora_name": "a", "lora_path": "/a", "other": 1}, "other"),
        (LOAD, {"lora_name": "a", "lora_path": "/nowhere"}, "lora_path"),
        (LOAD, {"lora_name": MODEL, "lora_path": "/a"}, "lora_name"),
        (UNLOAD, {}, "lora_name"),
        (UNLOAD, {"lora_name": "fixed"}, "lora_name"),
    ],
)
async def test_bad_requests_name_the_field(client: httpx.AsyncClient, path: str, body: Any, param: str) -> None:
    assert_error(await client.post(path, json=body), 400, param=param)
