"""What an adapter's folder must hold, and which models it fits."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deployments.adapter_files import (
    CARD,
    CONFIG,
    WEIGHTS,
    Adapter,
    AdapterError,
    Card,
    Shape,
    choose,
    module_shapes,
    smallest_rank,
)
from deployments.replica.engine.engine_adapters import adaptable_layers, outline
from tests.tiny_adapters import DAMAGES, damaged, with_config, write_adapter, write_model

CARD_EN: dict[str, Any] = {"base_model": "some/tiny", "languages": ["en"], "min_words": 300, "max_words": 5000}


@pytest.fixture(scope="module")
def model(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(smollm2_path, tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def modules(model: Path) -> dict[str, Shape]:
    return module_shapes(outline(str(model)))


@pytest.fixture(scope="module")
def folder(model: Path) -> Path:
    return write_adapter(model, model.parent / "saved", CARD_EN)


def write(file: str, content: bytes, folder: Path) -> None:
    (folder / file).write_bytes(content)


def with_card(**members: Any) -> Callable[[Path], object]:
    return partial(write, CARD, json.dumps({"format": 1, **CARD_EN, **members}).encode())


def check(adapter: Adapter, modules: dict[str, Shape], max_rank: int | None = None) -> None:
    adapter.check_model(modules, "m/tiny")
    adapter.check_engine(max_rank)


def fault(folder: Path, modules: dict[str, Shape], max_rank: int = 16) -> str:
    try:
        check(Adapter.read("a", str(folder)), modules, max_rank)
    except AdapterError as error:
        return str(error)
    return "no fault"


def test_an_adapter_that_peft_saved_fits_its_model(folder: Path, modules: dict[str, Shape]) -> None:
    adapter = Adapter.read("a", str(folder))
    check(adapter, modules, 16)
    check(adapter, modules)
    assert adapter.rank == 4 and len(adapter.shapes) == 6
    assert adapter.card == Card(**{**CARD_EN, "languages": ("en",)})


def test_the_digest_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copied")
    assert Adapter.read("b", str(copied)).digest == Adapter.read("a", str(folder)).digest
    with_config(lora_alpha=9)(copied)
    assert Adapter.read("b", str(copied)).digest != Adapter.read("a", str(folder)).digest


def test_a_damaged_one_is_refused_in_one_sentence(folder: Path, modules: dict[str, Shape], tmp_path: Path) -> None:
    faults: list[tuple[Callable[[Path], object], str]] = [
        *DAMAGES.values(),
        (lambda folder: (folder / CONFIG).unlink(), rf"adapter a: .* has no {CONFIG}"),
        (partial(write, WEIGHTS, b"no tensors"), f"{WEIGHTS} cannot be read"),
        (partial(write, CARD, b"{"), f"{CARD} cannot be read as JSON"),
        *(
            (with_card(**{name: value}), rf"wordbound\.json has a bad {name}")
            for name, value in (
                ("format", 2), ("languages", "en"), ("min_words", 0), ("max_words", True), ("base_model", 3)
            )
        ),
        (with_card(base_model="some/other"), "it was trained for some/other"),
        (with_config(rank_pattern={"q_proj": 8}), "the engine applies no rank_pattern"),
        (with_config(use_dora=True), "the engine applies no use_dora"),
    ]  # fmt: skip
    wrong = []
    for number, (damage, message) in enumerate(faults):
        result = fault(damaged(folder, tmp_path / str(number), damage), modules)
        if not re.search(message, result) or "\n" in result:
            wrong.append((message, result))
    assert not wrong
    assert "its rank is 4 and the engine's max_lora_rank 2: raise max_lora_rank" in fault(folder, modules, 2)


def test_an_adapter_of_the_head_is_refused_beside_vllms_model(
    model: Path, modules: dict[str, Shape], tmp_path: Path
) -> None:
    folder = write_adapter(model, tmp_path / "head", target_modules=["q_proj", "lm_head"])
    assert "the engine applies nothing to lm_head" in fault(folder, modules)
    check(Adapter.read("a", str(folder)), modules)


def test_a_model_of_other_modules_or_shapes_is_refused(folder: Path, modules: dict[str, Shape]) -> None:
    fewer = {name: shape for name, shape in modules.items() if "down_proj" not in name}
    assert "changes model.layers.0.mlp.down_proj and 1 more" in fault(folder, fewer)
    others = modules | {"model.layers.1.self_attn.q_proj": (96, 64)}
    assert "1.self_attn.q_proj is 96 × 64 in the model and 64 × 64 in the adapter" in fault(folder, others)


def test_the_layers_that_an_engine_may_have_to_change_are_named(model: Path) -> None:
    names = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert adaptable_layers(outline(str(model))) == names


def test_the_engine_gets_the_smallest_rank_that_fits(folder: Path) -> None:
    adapter = Adapter.read("a", str(folder))
    for rank, largest in ((4, 8), (17, 32), (512, 512)):
        shapes = {"q": {"A": (rank, 64), "B": (64, rank)}}
        assert smallest_rank([Adapter("b", folder, "", adapter.config, shapes, (), None), adapter]) == largest
    assert smallest_rank([]) == 16


def test_the_narrowest_card_that_fits_a_list_is_chosen() -> None:
    def card(*languages: str, **bounds: Any) -> Card:
        return Card(languages=languages, **bounds)

    cards = {
        "wide": card("en"),
        "b": card("en-GB", min_words=500, max_words=1000),
        "a": card("en", "es", min_words=1500, max_words=2000),
        "c": card("en", min_words=501, max_words=1001),
        "d": card("hr", "no"),
        "no card": None,
    }
    for lang, n_words, chosen in (
        ("en", 400, "wide"), ("en", 700, "b"), ("en-US", 1001, "c"), ("es", 1500, "a"), ("es", 1000, None),
        ("sh", 1000, "d"), ("nb", 1000, "d"), ("de", 1000, None), (None, 1000, None),
    ):  # fmt: skip
        assert choose(cards, lang, n_words) == chosen, (lang, n_words)
