"""The masks and states of the kernels are those of matchers, bit for bit, in Triton's interpreter."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from tests.inner.vllm_plugin.device import worlds
from tests.inner.vllm_plugin.device.interpreter import Interpreter, interpreting
from tests.npm_tokenizers import FetchError
from tests.random_lists import RandomList, random_lists

pytest.importorskip("triton", reason="masks on the device need Triton, which is not installed")

MET = ("several", "forced", "early", "bound", "in_word", "added", "place", "all_repeat", "ended")


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    with interpreting() as call:
        yield call


def test_masks_and_states_are_those_of_a_matcher(interpreter: Interpreter) -> None:
    met = Counter[str]()

    @given(source=random_lists())
    @settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
    def follow(source: RandomList) -> None:
        met.update(interpreter(worlds.follow_random_list, source, 6, 5))

    follow()
    for seed in range(4):
        met.update(interpreter(worlds.follow_telling_list, seed, 8, 10))
    assert met["masks"] >= 500
    assert all(met[name] for name in MET), met


@pytest.mark.stress
def test_twenty_thousand_masks_are_those_of_a_matcher(interpreter: Interpreter) -> None:
    met = Counter[str]()
    for seed in range(100):
        met.update(interpreter(worlds.follow_telling_list, seed, 8, 20))
    try:
        for number, language in enumerate(worlds.LANGUAGES):
            met.update(interpreter(worlds.follow_real_list, language, worlds.TOKENIZERS[number % 8], 8, 14))
    except FetchError as error:
        pytest.skip(str(error))
    assert met["masks"] >= 20_000
    assert all(met[name] for name in MET), met
