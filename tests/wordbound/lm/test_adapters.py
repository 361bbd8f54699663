"""LoRA adapters of a model of transformers: rows are those of merged weights, whatever was asked for before."""

import asyncio
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import AutoModelForCausalLM, MistralConfig, MistralForCausalLM

from tests.tiny_adapters import DAMAGES, damaged, merged, row_of, with_weights, write_adapter, write_model
from wordbound.lm import AsyncTransformer

PREFIX = [5, 6, 7, 8, 9, 10, 11]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(None, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def adapters(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return [write_adapter(model_path, folder / str(number), r=4 + number) for number in range(2)]


class World(NamedTuple):
    """A model, the folders of two adapters, and by adapter the row of merged weights."""

    lm: AsyncTransformer
    adapters: list[Path]
    expected: dict[str | None, torch.Tensor]


@pytest.fixture
def world(model_path: Path, adapters: list[Path]) -> World:
    model = AutoModelForCausalLM.from_pretrained(model_path)
    rows: dict[str | None, torch.Tensor] = {None: row_of(model, PREFIX)}
    rows |= {f"adapter.{i}": row_of(merged(model_path, adapter), PREFIX) for i, adapter in enumerate(adapters)}
    assert not is_close(rows[None], rows["adapter.0"])
    return World(AsyncTransformer(model, None), adapters, rows)


def is_close(row: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.allclose(row, other, atol=1e-4))


def load(lm: AsyncTransformer, adapters: list[Path]) -> None:
    for i, adapter in enumerate(adapters):
        # A full stop, which no name of a module of torch may have.
        lm.add_new_lora(str(adapter), f"adapter.{i}")


def test_every_entry_has_the_rows_of_merged_weights_in_any_order(world: World) -> None:
    lm, adapters, expected = world
    before = lm.next_token_logprobs_sync(PREFIX)
    load(lm, adapters)
    for name in (None, "adapter.0", "adapter.1", "adapter.0", None, "adapter.1"):
        row = expected[name]
        assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name=name), row)
        assert is_close(lm.next_token_logprobs_uncached(PREFIX, lora_name=name), row)
        assert is_close(asyncio.run(lm.next_token_logprobs(PREFIX, lora_name=name)), row)
        assert is_close(lm.batch_next_token_logprobs_sync([PREFIX, PREFIX[:3]], lora_name=name)[0], row)
        assert lm.token_logprobs_sync(PREFIX, [3], lora_name=name).item() == pytest.approx(row[3].item(), abs=1e-4)
    assert torch.equal(lm.next_token_logprobs_sync(PREFIX), before)
    names = list(expected) * 2

    async def ask() -> list[torch.Tensor]:
        return await asyncio.gather(*(lm.next_token_logprobs(PREFIX, lora_name=name) for name in names))

    # One batch may have several adapters.
    lm.clear_cache()
    assert all(is_close(row, expected[name]) for name, row in zip(names, asyncio.run(ask()), strict=True))


def test_an_adapter_is_set_for_all_calls_that_name_none(world: World) -> None:
    lm, adapters, expected = world
    load(lm, adapters)
    for arguments, name in (
        (["adapter.0"], "adapter.0"),
        ([str(adapters[1])], "adapter.1"),
        ([None, "adapter.0"], "adapter.0"),
        ([str(adapters[0]), "adapter.1"], "adapter.1"),
    ):
        lm.set_lora(*arguments)
        assert is_close(lm.next_token_logprobs_sync(PREFIX), expected[name])
        assert is_close(lm.next_token_logprobs_uncached(PREFIX), expected[name])
        assert is_close(asyncio.run(lm.next_token_logprobs(PREFIX)), expected[name])
        # Each call may still name one.
        assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name="adapter.1"), expected["adapter.1"])
    for unknown in ([], ["adapter.2"], [str(adapters[0] / "other")], [str(adapters[0]), "poet"]):
        with pytest.raises(ValueError, match="unknown LoRA adapter: '"):
            lm.set_lora(*unknown)
        assert is_close(lm.next_token_logprobs_sync(PREFIX), expected["adapter.1"])
    lm.remove_lora("adapter.1")
    with pytest.raises(ValueError, match=r"unknown LoRA adapter: 'adapter\.1'.*after clear_lora"):
        lm.next_token_logprobs_sync(PREFIX)
    lm.clear_lora()
    assert is_close(lm.next_token_logprobs_sync(PREFIX), expected[None])
    lm.add_new_lora(str(adapters[0]))
    lm.set_lora()
    assert is_close(lm.next_token_logprobs_sync(PREFIX), expected["adapter.0"])


def test_keys_and_values_are_of_one_adapter(world: World) -> None:
    lm, adapters, expected = world
    load(lm, adapters)
    for name in expected:
        # All but the last token are kept before the row is asked for.
        lm.cache_kv(PREFIX[:-1], lora_name=name)
    for name, row in expected.items():
        assert lm.walk_cache(PREFIX, lora_name=name)[3] == len(PREFIX) - 1
        assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name=name), row)
    assert set(lm._caches) == set(expected)
    lm.clear_kv_cache()
    assert all(lm.walk_cache(PREFIX, lora_name=name)[1] == 0 for name in expected)


def test_a_replaced_adapter_leaves_no_row(world: World) -> None:
    lm, adapters, expected = world
    for i in (0, 1, 0):
        lm.add_new_lora(str(adapters[i]), "poet")
        assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name="poet"), expected[f"adapter.{i}"])
    assert len(lm._cached_tokens) == 2


def test_who_waits_while_an_adapter_is_replaced_gets_no_row_of_the_other(world: World) -> None:
    lm, adapters, expected = world
    lm.add_new_lora(str(adapters[0]))

    async def ask() -> None:
        waiting = asyncio.ensure_future(lm.next_token_logprobs(PREFIX, lora_name="lora_1"))
        await asyncio.sleep(0)
        lm.add_new_lora(str(adapters[1]))
        new = lm.next_token_logprobs(PREFIX, lora_name="lora_1")
        with pytest.raises(ValueError, match="was removed or replaced"):
            await waiting
        assert is_close(await new, expected["adapter.1"])

    asyncio.run(ask())


def test_threads_do_not_see_each_others_adapters(world: World) -> None:
    lm, adapters, expected = world
    load(lm, adapters)
    wrong: list[str | None] = []

    def ask(name: str | None) -> None:
        for _ in range(20):
            row = lm.next_token_logprobs_uncached(PREFIX, lora_name=name)
            wrong.extend([name] * (not is_close(row, expected[name])))

    threads = [threading.Thread(target=ask, args=[name]) for name in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_removed_adapter_is_unknown_and_the_model_is_as_before(world: World) -> None:
    lm, adapters, expected = world
    load(lm, adapters)
    lm.next_token_logprobs_sync(PREFIX, lora_name="adapter.0")
    lm.remove_lora("adapter.0")
    for ask in (lm.next_token_logprobs_sync, lm.next_token_logprobs_uncached, lm.cache_kv, lm.walk_cache):
        with pytest.raises(ValueError, match=r"unknown LoRA adapter: 'adapter\.0'"):
            ask(PREFIX, lora_name="adapter.0")
    with pytest.raises(ValueError, match="unknown LoRA adapter"):
        lm.remove_lora("adapter.0")
    assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name="adapter.1"), expected["adapter.1"])
    lm.remove_lora("adapter.1")
    assert is_close(lm.next_token_logprobs_sync(PREFIX), expected[None])
    assert is_close(lm.next_token_logprobs_uncached(PREFIX), expected[None])
    load(lm, adapters)
    assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name="adapter.0"), expected["adapter.0"])


OTHERS = r"are not those of its adapter_config.json|no matching pair"
OF_THE_CONFIGURATION: dict[str, tuple[Any, str]] = {
    "missing tensors": (with_weights(lambda name, tensor: {} if "layers.1" in name else {name: tensor}), OTHERS),
    "another rank": (
        with_weights(lambda name, tensor: {name: tensor[:2].contiguous() if "lora_A" in name else tensor}),
        OTHERS,
    ),
    "more tensors": (
        with_weights(lambda name, tensor: {name: tensor, name.replace("v_proj", "o_proj"): tensor.clone()}),
        OTHERS,
    ),
}


@pytest.mark.parametrize("loaded", [None, "poet"])
def test_a_damaged_adapter_is_refused_and_changes_nothing(world: World, tmp_path: Path, loaded: str | None) -> None:
    lm, adapters, expected = world
    if loaded is not None:
        lm.add_new_lora(str(adapters[1]), loaded)
    for name, (damage, message) in {**DAMAGES, **OF_THE_CONFIGURATION}.items():
        folder = damaged(adapters[0], tmp_path / name, damage)
        with pytest.raises(ValueError, match=message) as refused:
            lm.add_new_lora(str(folder), "poet")
        assert "\n" not in str(refused.value) or message == OTHERS
        row = expected["adapter.1" if loaded else None]
        assert is_close(lm.next_token_logprobs_uncached(PREFIX, lora_name=loaded), row)
        assert is_close(lm.next_token_logprobs_uncached(PREFIX), expected[None])
    load(lm, adapters)
    for of, row in expected.items():
        assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name=of), row)


def test_a_name_that_nobody_has_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="'nobody/nothing' is no folder, and cannot be fetched from Hugging Face"):
        world.lm.add_new_lora("nobody/nothing")


def test_models_with_windows_have_adapters_too(tmp_path: Path) -> None:
    torch.manual_seed(1)
    sizes = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(vocab_size=50, num_key_value_heads=1, sliding_window=4, initializer_range=0.3, **sizes)
    MistralForCausalLM(config).save_pretrained(tmp_path / "model")
    adapter = write_adapter(tmp_path / "model", tmp_path / "adapter")
    lm = AsyncTransformer(AutoModelForCausalLM.from_pretrained(tmp_path / "model"), None)
    before = lm.next_token_logprobs_sync(PREFIX)
    lm.add_new_lora(str(adapter))
    lm.cache_kv(PREFIX[:3])
    lm.cache_kv(PREFIX[:5], lora_name="lora_1")
    row = row_of(merged(tmp_path / "model", adapter), PREFIX)
    assert is_close(lm.next_token_logprobs_sync(PREFIX, lora_name="lora_1"), row)
    assert not is_close(before, row)
    lm.cache.clear()
    assert is_close(lm.next_token_logprobs_sync(PREFIX), before)
