"""A process's time of day beside a machine's clock that jumps."""

import pytest

from deployments.batch.stages import STEADY_S, Clock

START = 1_000_000.0
DAY = 86_400.0


class Machine:
    """Its clock, of which a part has passed since it was started."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.jumped = 0.0
        self.clock = Clock(wall=lambda: START + self.passed + self.jumped, monotonic=lambda: self.passed)

    def wait(self, seconds: float) -> None:
        self.passed += seconds
        self.clock.look()


@pytest.mark.parametrize("jump", [DAY, -DAY, 40.0])
def test_it_goes_on_evenly_whatever_the_machines_clock_does(jump: float) -> None:
    machine = Machine()
    machine.jumped = jump
    machine.wait(100)
    assert machine.clock() == START + 100


def test_what_this_process_made_is_over_when_its_time_has_passed() -> None:
    machine = Machine()
    machine.jumped = DAY
    machine.wait(99)
    assert not machine.clock.has_passed(START + 100, START)
    machine.wait(1)
    assert machine.clock.has_passed(START + 100, START)


def test_what_an_earlier_process_made_is_over_once_the_clock_has_gone_evenly() -> None:
    machine = Machine()
    machine.wait(STEADY_S - 1)
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.wait(1)
    assert machine.clock.has_passed(START - 100, START - 200)
    machine.jumped = DAY
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.wait(2 * STEADY_S)
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.jumped = 0.0
    machine.wait(1)
    assert not machine.clock.has_passed(START - 100, START - 200)
    machine.wait(STEADY_S)
    assert machine.clock.has_passed(START - 100, START - 200)


def test_a_jump_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.wait(1)
    assert not caplog.records
    for jumped in (DAY, DAY, 0.0, 20.0, -DAY):
        machine.jumped = jumped
        machine.wait(1)
    jump, end, back = [record.message for record in caplog.records]
    assert "jumped by +86400 s" in jump
    assert "again where it was expected" in end
    assert "jumped by -86400 s" in back
