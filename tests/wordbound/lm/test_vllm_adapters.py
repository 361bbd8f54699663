"""LoRA adapters in a real vLLM engine, against merged weights in transformers."""

import re
from typing import Any, TypeAlias

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.e2e.own_engine import run_program
from tests.tiny_adapters import DAMAGES, damaged, merged, row_of, write_adapter, write_model

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

PREFIX = [5, 6, 7, 8, 9, 10, 11, *range(20, 60)]


World: TypeAlias = tuple[dict[str, Any], dict[str | None, torch.Tensor]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What the program found, and by adapter the row of merged weights."""
    folder = tmp_path_factory.mktemp("adapters")
    model = write_model(None, folder / "model")
    first = write_adapter(model, folder / "first")
    second = write_adapter(model, folder / "second", target_modules=["o_proj", "gate_proj"])
    large = write_adapter(model, folder / "large", r=32)
    (folder / "damaged").mkdir()
    for name, (damage, _) in DAMAGES.items():
        if name != "no folder":
            damaged(first, folder / "damaged" / name, damage)
    paths = [model, first, second, folder / "damaged", large, folder / "found"]
    run_program("tests.wordbound.lm.adapter_engine", *map(str, paths), log=folder / "log")
    expected: dict[str | None, torch.Tensor] = {None: row_of(AutoModelForCausalLM.from_pretrained(model), PREFIX)}
    expected |= {path.name: row_of(merged(model, path), PREFIX) for path in (first, second)}
    return torch.load(folder / "found"), expected


def assert_close(row: torch.Tensor, expected: torch.Tensor) -> None:
    assert float((row - expected).abs().max()) < 1e-3


def test_rows_and_scores_are_those_of_merged_weights_and_the_model_itself_stays_as_it_was(world: World) -> None:
    found, expected = world
    for entry in ("in turn", "cached", "at once", "replaced"):
        for name, row in found[entry]:
            assert_close(row, expected[name])
    for name, scores in found["scores"]:
        assert_close(scores, expected[name][3])
    assert_close(found["before"], expected[None])
    assert_close(found["after"], expected[None])
    assert found["cached rows"] == 1


def test_errors_say_what_to_change(world: World) -> None:
    found, _ = world
    assert found["removed while it is asked for"]
    assert all("was removed or replaced" in message for message in found["removed while it is asked for"])
    errors = found["errors"]
    assert "give engine_opts={'enable_lora': True}" in errors["not enabled"]
    assert "its rank is 32 and the engine's max_lora_rank 16: raise max_lora_rank" in errors["rank"]
    assert "2 adapters are loaded already: remove one, or raise max_cpu_loras" in errors["too many"]
    # A damaged adapter is refused before the engine reads it.
    for name, (_, said) in DAMAGES.items():
        assert name == "no folder" or (re.search(said, errors[name]) and "\n" not in errors[name]), errors[name]
