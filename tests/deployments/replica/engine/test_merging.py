"""A model with an adapter in its weights."""

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from deployments.replica.engine.merging import merge_model
from tests.tiny_adapters import write_adapter, write_model
from vocab.adapters import Adapter, AdapterError


@pytest.fixture(scope="module")
def model(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(smollm2_path, tmp_path_factory.mktemp("model") / "tiny")


def test_a_merged_model_is_a_whole_one_and_computes_what_peft_does(model: Path, tmp_path: Path) -> None:
    adapter = Adapter.read("some/a", str(write_adapter(model, tmp_path / "a")))
    folder = merge_model(str(model), adapter, tmp_path / "cache")
    tokens = AutoTokenizer.from_pretrained(folder)("Once upon a time", return_tensors="pt").input_ids
    base = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        merged = AutoModelForCausalLM.from_pretrained(folder)(tokens).logits
        plain = base(tokens).logits
        adapted = PeftModel.from_pretrained(base, tmp_path / "a")(tokens).logits
    assert torch.allclose(merged, adapted, atol=1e-3)
    assert not torch.allclose(merged, plain, atol=1)
    assert {path.name for path in model.iterdir()} <= {path.name for path in folder.iterdir()}


def test_it_is_made_once_for_each_content(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = Adapter.read("a", str(write_adapter(model, tmp_path / "a")))
    other = Adapter.read("a", str(write_adapter(model, tmp_path / "other")))
    made = merge_model(str(model), first, cache)
    stamp = (made / "model.safetensors").stat().st_mtime_ns
    assert merge_model(str(model), first, cache) == made
    assert (made / "model.safetensors").stat().st_mtime_ns == stamp
    assert merge_model(str(model), other, cache) != made
    assert len(list(cache.iterdir())) == 2


def test_one_that_cannot_be_merged_leaves_nothing(model: Path, tmp_path: Path) -> None:
    adapter = Adapter.read("a", str(write_adapter(model, tmp_path / "a")))
    larger = write_adapter(model, tmp_path / "b", r=8)
    (tmp_path / "a" / "adapter_model.safetensors").write_bytes((larger / "adapter_model.safetensors").read_bytes())
    with pytest.raises(AdapterError, match=r"adapter a: peft cannot merge it"):
        merge_model(str(model), adapter, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())
