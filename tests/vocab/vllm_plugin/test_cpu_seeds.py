"""Seeds on a CPU; in a whole engine, with a prompt of several steps, ``tests/e2e/test_log_mass.py`` has one."""

from types import SimpleNamespace

import pytest
import torch
import vllm
from vllm.v1.worker.gpu_input_batch import InputBatch

from vocab.vllm_plugin import cpu_patches
from vocab.vllm_plugin.cpu_patches import CpuGenerator


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """The requests that vLLM's batch was given."""
    requests: list[SimpleNamespace] = []
    monkeypatch.setattr(InputBatch, "add_request", lambda self, request: requests.append(request))
    return requests


def drawn(generator: torch.Generator) -> list[float]:
    return [float(value) for value in torch.rand(3, generator=generator)]


def seeded(seed: int) -> torch.Generator:
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


def test_a_request_with_a_seed_draws_as_before_and_can_take_it_back(added: list[SimpleNamespace]) -> None:
    cpu_patches.patch_seeds()
    cpu_patches.patch_seeds()
    batch = InputBatch.__new__(InputBatch)
    batch.add_request(SimpleNamespace(generator=seeded(5)))
    batch.add_request(SimpleNamespace(generator=None))
    generator = added[0].generator
    assert isinstance(generator, CpuGenerator)
    first = drawn(generator)
    assert first == drawn(seeded(5))
    # As vLLM does after each step of a prompt but the last.
    generator.set_offset(generator.get_offset() - 4)
    assert drawn(generator) == first
    assert added[1].generator is None


def test_a_request_that_comes_again_keeps_its_generator(added: list[SimpleNamespace]) -> None:
    cpu_patches.patch_seeds()
    batch, request = InputBatch.__new__(InputBatch), SimpleNamespace(generator=seeded(5))
    batch.add_request(request)
    kept = request.generator
    batch.add_request(request)
    assert added[1].generator is kept


@pytest.mark.parametrize("version", ["0.28.2", "0.30.0"])
def test_versions_that_were_not_tried_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    original = InputBatch.add_request
    monkeypatch.setattr(vllm, "__version__", version)
    cpu_patches.patch_seeds()
    assert InputBatch.add_request is original
