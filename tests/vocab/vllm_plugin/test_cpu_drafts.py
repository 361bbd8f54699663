"""The temperatures of drafts on a CPU; in a whole engine ``tests/e2e/test_under_pressure.py`` has them."""

import sys

import pytest
import torch
import vllm.v1.sample.rejection_sampler as rejection_sampler

from vocab.vllm_plugin import cpu_drafts


@pytest.fixture(autouse=True)
def original(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts vLLM's function back in the end."""
    monkeypatch.setattr(rejection_sampler, "expand_batch_to_tokens", rejection_sampler.expand_batch_to_tokens)


def test_each_row_of_a_sequence_gets_its_temperature() -> None:
    cpu_drafts.install()
    cpu_drafts.install()
    temperatures, ends = torch.tensor([0.4, 0.0, 0.7, 1.3]), torch.tensor([3, 4, 4, 6], dtype=torch.int32)
    spread = rejection_sampler.expand_batch_to_tokens(temperatures, ends, 6, replace_from=0, replace_to=1)
    assert spread.tolist() == pytest.approx([0.4, 0.4, 0.4, 1.0, 1.3, 1.3])
    top_k = torch.tensor([50, 7], dtype=torch.int32)
    spread = rejection_sampler.expand_batch_to_tokens(top_k, torch.tensor([1, 3], dtype=torch.int32), 3)
    assert (spread.tolist(), spread.dtype) == ([50, 7, 7], torch.int32)


def test_a_vllm_with_other_insides_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rejection_sampler.expand_batch_to_tokens
    monkeypatch.setitem(sys.modules, "vllm.v1.sample.rejection_sampler", None)
    cpu_drafts.install()
    assert rejection_sampler.expand_batch_to_tokens is before
