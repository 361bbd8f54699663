"""Requests that the device follows, in vLLM's own scheduler: nothing is deferred, and no mask is asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inner.vllm_plugin.device.interpreter import Interpreter, interpreting
from tests.small_tokenizer import STOP

pytest.importorskip("triton", reason="masks on the device need Triton, which is not installed")

from tests.inner.vllm_plugin.device import engine

Tell = Callable[[Callable[..., engine.Told]], engine.Told]


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    with interpreting() as call:
        yield call


@pytest.fixture
def tell(interpreter: Interpreter, tmp_path: Path) -> Tell:
    return lambda function: interpreter(function, tmp_path)


def test_texts_of_lists_are_scheduled_as_free_ones_are(tell: Tell) -> None:
    told = tell(engine.follow_many)
    assert told.counts["steps"] > 20
    assert told.counts["deferred"] == told.counts["masks asked for"] == 0
    assert told.facts == {"num_dead": 0, "not masked": ["free"]}


def test_texts_that_fall_back_share_their_steps(tell: Tell) -> None:
    told = tell(engine.follow_beside_others)
    assert told.counts["masks asked for"] > 0
    assert told.facts["on the device"] == 2
    # What each mask left is measured for the texts that ask, wherever they are masked.
    assert told.facts["measured"] == ["limits", "r1"]


def test_a_text_goes_on_after_a_preemption_and_an_abort_ends_one(tell: Tell) -> None:
    told = tell(engine.preempt_and_abort)
    assert told.facts["preempted"] > 0
    assert told.facts["num_dead"] == 0
    assert told.counts["masks asked for"] == 0


@pytest.mark.fault(80)
def test_a_text_without_its_table_is_not_sampled(tell: Tell) -> None:
    told = tell(engine.take_tables)
    assert told.facts["before the worker has it"] == told.facts["in its slot"] == "NotMaskedError"


@pytest.mark.fault(80)
def test_a_dead_text_may_only_stop_and_is_counted(tell: Tell) -> None:
    told = tell(engine.sample_a_forbidden_token)
    assert told.facts["after it"] == [STOP]
    assert told.facts["num_dead"] >= 1


def test_masks_of_dummy_steps_are_nobodys(tell: Tell) -> None:
    assert tell(engine.step_between_dummies).counts["masks asked for"] == 0


def test_a_list_that_has_no_room_is_masked_on_the_cpu_and_the_log_says_so(tell: Tell) -> None:
    told = tell(engine.fall_back_for_want_of_room)
    assert told.counts["masks asked for"] > 0
    assert told.facts["reasons"] == ["no room for 5 words in 1024 bytes"]


def test_the_benchmark_has_an_arm_masked_on_the_cpu_beside_one_on_the_device(tell: Tell) -> None:
    told = tell(engine.keep_an_arm)
    assert told.facts["kept"] == ["constrained-1"]
    assert (told.facts["added"], told.facts["on_device"]) == (3, 2)
    assert told.counts["masks asked for"] > 0
