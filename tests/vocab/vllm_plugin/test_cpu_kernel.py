import numpy as np
import pytest
import torch
import xgrammar

from vocab.vllm_plugin import cpu_kernel

INT32 = np.iinfo(np.int32)


def masks(num_rows: int, num_tokens: int) -> torch.Tensor:
    random = np.random.default_rng(3)
    words = random.integers(INT32.min, INT32.max, (num_rows, (num_tokens + 31) // 32), dtype=np.int32)
    words[random.random(words.shape) < 0.5] = 0
    words[random.random(words.shape) < 0.2] = -1
    return torch.from_numpy(words)


@pytest.mark.parametrize("num_tokens", [31, 32, 1000, 49_152])
@pytest.mark.parametrize("indices", [None, [0, 2]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masks_as_xgrammar_does(num_tokens: int, indices: list[int] | None, dtype: torch.dtype) -> None:
    logits, bitmask = torch.randn(4, num_tokens).to(dtype), masks(4, num_tokens)
    expected = logits.clone()
    cpu_kernel._by_xgrammar(expected, bitmask, indices=indices)
    cpu_kernel.apply_token_bitmask_inplace(logits, bitmask, indices=indices)
    assert torch.equal(logits, expected)


def test_logits_past_the_mask_are_left_alone() -> None:
    logits = torch.ones(1, 80)
    cpu_kernel.apply_token_bitmask_inplace(logits, torch.zeros(1, 2, dtype=torch.int32))
    assert torch.isinf(logits[0, :64]).all()
    assert (logits[0, 64:] == 1).all()


def test_it_is_installed_where_vllm_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xgrammar, "apply_token_bitmask_inplace", xgrammar.apply_token_bitmask_inplace)
    cpu_kernel.install()
    cpu_kernel.install()
    assert xgrammar.apply_token_bitmask_inplace is cpu_kernel.apply_token_bitmask_inplace
