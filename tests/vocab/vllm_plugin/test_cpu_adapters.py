"""Adapters in the operations of a CPU; in a whole engine, ``tests/wordbound/lm/test_vllm_adapters.py`` has them."""

import pytest
import torch
from vllm.lora.ops.torch_ops import lora_ops
from vllm.lora.punica_wrapper import punica_cpu

from vocab.vllm_plugin import cpu_patches

NAMES = ("bgmv_expand", "bgmv_expand_slice")


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lora_ops, punica_cpu):
        for name in NAMES:
            monkeypatch.setattr(module, name, getattr(module, name))


@pytest.mark.parametrize("module", [lora_ops, punica_cpu])
@pytest.mark.parametrize("name", NAMES)
def test_a_token_without_an_adapter_gets_nothing_added(name: str, module: object) -> None:
    cpu_patches.patch_adapters()
    cpu_patches.patch_adapters()
    inputs, weights = torch.ones(3, 2), torch.ones(2, 4, 2)
    output = torch.zeros(3, 4)
    where = (0, 4) if name.endswith("slice") else ()
    getattr(module, name)(inputs, weights, output, torch.tensor([0, -1, 1]), *where, add_inputs=True)
    assert output.tolist() == [[2.0] * 4, [0.0] * 4, [2.0] * 4]
    assert inputs.tolist() == [[1.0, 1.0]] * 3


def test_tokens_of_a_prompt_get_nothing_added() -> None:
    cpu_patches.patch_adapters()
    output = torch.zeros(5, 4)
    starts, lengths = torch.tensor([0, 2]), torch.tensor([2, 3])
    lora_ops.sgmv_expand(
        torch.ones(5, 2), torch.ones(1, 4, 2), output, starts, lengths, torch.tensor([-1, 0]), 2, 3, 5, add_inputs=True
    )
    assert output.sum(1).tolist() == [0, 0, 8, 8, 8]
