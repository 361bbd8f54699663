"""The masks and states of the kernels on a GPU, compiled: those of matchers, bit for bit."""

from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from tests.inner.vllm_plugin.device import worlds
from tests.random_lists import RandomList, random_lists

pytest.importorskip("triton", reason="masks on the device need Triton, which is not installed")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)


@given(source=random_lists())
@settings(max_examples=5 * settings().max_examples, suppress_health_check=list(HealthCheck))
def test_random_lists(source: RandomList) -> None:
    worlds.follow_random_list(source, 12, 40, "cuda")


@pytest.mark.parametrize("seed", range(20))
def test_lists_that_are_hard(seed: int) -> None:
    met: Counter[str] = worlds.follow_telling_list(seed, 16, 100, "cuda")
    assert met["masks"] > 1000


@pytest.mark.parametrize("language", worlds.LANGUAGES)
def test_real_lists(language: str) -> None:
    met: Counter[str] = worlds.follow_real_list(language, "smollm2", 16, 60, "cuda")
    assert met["masks"] > 900
