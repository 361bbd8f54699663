from vocab.vllm_plugin.gathering import LONGEST_S, QUIET_S, Gathering


class Clock:
    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def test_an_idle_engine_waits_until_nobody_follows() -> None:
    clock = Clock()
    gathering = Gathering(clock)
    assert not gathering.is_open()
    gathering.arrived()
    assert gathering.is_open()
    clock.now_s += QUIET_S * 0.9
    gathering.arrived()
    clock.now_s += QUIET_S * 0.9
    assert gathering.is_open()
    clock.now_s += QUIET_S * 0.2
    assert not gathering.is_open()


def test_an_engine_that_computes_waits_for_nobody() -> None:
    gathering = Gathering(Clock())
    gathering.stepped(3)
    gathering.arrived()
    assert not gathering.is_open()
    gathering.stepped(0)
    assert gathering.is_open()


def test_who_comes_on_and_on_is_not_waited_for_long() -> None:
    clock = Clock()
    gathering = Gathering(clock)
    waited_s = 0.0
    gathering.arrived()
    while gathering.is_open():
        clock.now_s += 0.001
        waited_s += 0.001
        gathering.arrived()
    assert LONGEST_S <= waited_s <= LONGEST_S + 0.002
    clock.now_s += LONGEST_S * 1.1
    gathering.arrived()
    assert gathering.is_open()
