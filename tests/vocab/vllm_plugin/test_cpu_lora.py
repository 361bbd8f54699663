"""Rows without an adapter beside rows that have one, in vLLM's code for a CPU."""

import torch
from vllm.lora.ops.torch_ops import lora_ops
from vllm.lora.punica_wrapper import punica_cpu

from vocab.vllm_plugin import cpu_lora


def test_rows_without_an_adapter_get_nothing_of_the_last_one() -> None:
    assert cpu_lora.install()
    inputs = torch.ones(3, 4)
    first, second = torch.ones(2, 1, 3, 4), torch.ones(2, 1, 5, 3)
    indices = torch.tensor([1, -1, 0])
    for module in (lora_ops, punica_cpu):
        shrunk, expanded = torch.zeros(3, 3), torch.zeros(3, 5)
        module.bgmv_shrink(inputs, first, shrunk, indices, 0.5)
        module.bgmv_expand(shrunk, second, expanded, indices, add_inputs=True)
        assert shrunk.tolist() == [[2.0] * 3, [0.0] * 3, [2.0] * 3]
        assert expanded.tolist() == [[6.0] * 5, [0.0] * 5, [6.0] * 5]


def test_neither_do_prompts() -> None:
    assert cpu_lora.install()
    inputs, shrunk = torch.ones(5, 4), torch.zeros(5, 3)
    lengths = torch.tensor([2, 3])
    punica_cpu.sgmv_shrink(
        inputs, torch.ones(2, 1, 3, 4), shrunk, torch.tensor([0, 2]), lengths, torch.tensor([-1, 1]), 2, 3, 5, 1.0
    )
    assert shrunk.tolist() == [[0.0] * 3] * 2 + [[4.0] * 3] * 3
