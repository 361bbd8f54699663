"""What an adapter's folder must hold, and which models it fits."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from deployments.replica.engine.engine_adapters import adaptable_layers, outline
from tests.tiny_adapters import DAMAGES, damaged, write_adapter, write_model
from vocab.adapters import (
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

CARD_EN: dict[str, Any] = {"base_model": "some/tiny", "languages": ["en"], "min_words": 300, "max_words": 5000}


@pytest.fixture(scope="module")
def model(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(smollm2_path, tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def modules(model: Path) -> dict[str, Shape]:
    return module_shapes(outline(str(model)))


@pytest.fixture(scope="module")
def saved(model: Path) -> Path:
    return write_adapter(model, model.parent / "saved", CARD_EN)


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "adapter"))


def change(folder: Path, file: str, **values: Any) -> None:
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def fault(folder: Path, modules: dict[str, Shape], max_rank: int = 16) -> str:
    with pytest.raises(AdapterError) as error:
        check(Adapter.read("a", str(folder)), modules, max_rank)
    return str(error.value)


def check(adapter: Adapter, modules: dict[str, Shape], max_rank: int | None = None) -> None:
    adapter.check_model(modules, "m/tiny")
    adapter.check_engine(max_rank)


def test_an_adapter_that_peft_saved_fits_its_model(folder: Path, modules: dict[str, Shape]) -> None:
    adapter = Adapter.read("a", str(folder))
    check(adapter, modules, 16)
    check(adapter, modules)
    assert adapter.rank == 4 and len(adapter.shapes) == 6
    assert adapter.card == Card(**{**CARD_EN, "languages": ("en",)})


def test_the_digest_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copied")
    assert Adapter.read("b", str(copied)).digest == Adapter.read("a", str(folder)).digest
    change(copied, CONFIG, lora_alpha=9)
    assert Adapter.read("b", str(copied)).digest != Adapter.read("a", str(folder)).digest


@pytest.mark.parametrize("file", [CONFIG, WEIGHTS])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(AdapterError, match=rf"adapter a: .* has no {file}"):
        Adapter.read("a", str(folder))


@pytest.mark.parametrize(("file", "content"), [(CONFIG, b"{"), (CONFIG, b"[]"), (WEIGHTS, b"no tensors"), (CARD, b"{")])
def test_a_file_that_cannot_be_read_is_named(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(AdapterError, match=file):
        Adapter.read("a", str(folder))


def test_a_folder_that_is_not_there_is_not_looked_for_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="there is no folder"):
        Adapter.read("a", str(tmp_path / "none"))


def test_another_kind_of_adapter_is_refused(folder: Path) -> None:
    change(folder, CONFIG, peft_type="IA3")
    with pytest.raises(AdapterError, match="'IA3', expected 'LORA'"):
        Adapter.read("a", str(folder))


@pytest.mark.parametrize(
    "member", [{"format": 2}, {"languages": "en"}, {"min_words": 0}, {"max_words": True}, {"base_model": 3}]
)
def test_a_card_of_another_form_is_refused(folder: Path, member: dict[str, Any]) -> None:
    change(folder, CARD, **member)
    with pytest.raises(AdapterError, match=rf"wordbound\.json has a bad {next(iter(member))}"):
        Adapter.read("a", str(folder))


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_one_is_refused_in_one_sentence(
    folder: Path, modules: dict[str, Shape], tmp_path: Path, name: str
) -> None:
    damage, message = DAMAGES[name]
    result = fault(damaged(folder, tmp_path / "damaged", damage), modules)
    assert re.search(message, result)
    assert "\n" not in result


def test_a_rank_above_the_engines_is_refused(folder: Path, modules: dict[str, Shape]) -> None:
    assert "its rank is 4 and the engine's max_lora_rank 2: raise max_lora_rank" in fault(folder, modules, 2)


@pytest.mark.parametrize("field", [{"rank_pattern": {"q_proj": 8}}, {"use_dora": True}, {"bias": "all"}])
def test_what_the_engine_would_not_apply_is_refused(
    folder: Path, modules: dict[str, Shape], field: dict[str, Any]
) -> None:
    change(folder, CONFIG, **field)
    assert f"the engine applies no {next(iter(field))}" in fault(folder, modules)


def test_an_adapter_of_the_head_is_refused_beside_vllms_model(
    model: Path, modules: dict[str, Shape], tmp_path: Path
) -> None:
    folder = write_adapter(model, tmp_path / "head", target_modules=["q_proj", "lm_head"])
    assert "the engine applies nothing to lm_head" in fault(folder, modules)
    check(Adapter.read("a", str(folder)), modules)


def test_the_card_of_another_model_is_refused(folder: Path, modules: dict[str, Shape]) -> None:
    change(folder, CARD, base_model="some/other")
    assert "it was trained for some/other" in fault(folder, modules)


def test_modules_that_the_model_does_not_have_are_named(folder: Path, modules: dict[str, Shape]) -> None:
    fewer = {name: shape for name, shape in modules.items() if "down_proj" not in name}
    assert "changes model.layers.0.mlp.down_proj and 1 more" in fault(folder, fewer)


def test_shapes_that_do_not_fit_are_named(folder: Path, modules: dict[str, Shape]) -> None:
    others = modules | {"model.layers.1.self_attn.q_proj": (96, 64)}
    assert "1.self_attn.q_proj is 96 × 64 in the model and 64 × 64 in the adapter" in fault(folder, others)


def test_the_layers_that_an_engine_may_have_to_change_are_named(model: Path) -> None:
    names = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert adaptable_layers(outline(str(model))) == names


@pytest.mark.parametrize(("rank", "largest"), [(4, 8), (17, 32), (512, 512)])
def test_the_engine_gets_the_smallest_rank_that_fits(folder: Path, rank: int, largest: int) -> None:
    adapter = Adapter.read("a", str(folder))
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
        "no card": None,
    }
    assert choose(cards, "en", 400) == "wide"
    assert choose(cards, "en", 700) == "b"
    assert choose(cards, "en-US", 1001) == "c"
    assert choose(cards, "es", 1500) == "a"
    assert choose(cards, "es", 1000) is None
    assert choose(cards, "de", 1000) is None
    assert choose(cards, None, 1000) is None
