import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.matching.log_mass import FIELD_MAX, MARK, pack, unpack

_LOG_MASSES = st.floats(min_value=-2047.9, max_value=0.0)


@given(_LOG_MASSES, _LOG_MASSES)
def test_two_masses_come_back_as_packed(log_mass: float, log_weight_mass: float) -> None:
    assert unpack(pack(log_mass, log_weight_mass)) == pytest.approx((log_mass, log_weight_mass), abs=2**-21)


@given(_LOG_MASSES, _LOG_MASSES)
def test_a_packed_number_fits_into_a_signed_word(log_mass: float, log_weight_mass: float) -> None:
    assert 0 <= pack(log_mass, log_weight_mass) < 2**63


def test_nothing_lost_is_zero() -> None:
    assert pack(0.0, 0.0) == pack(-0.0, 1e-7) == MARK
    assert [math.copysign(1.0, nats) for nats in unpack(MARK)] == [1.0, 1.0]


@pytest.mark.parametrize("log_mass", [-math.inf, math.nan, -1e30, -2048.0])
def test_what_is_less_than_can_be_told_is_the_least(log_mass: float) -> None:
    least = -FIELD_MAX / 2**20
    assert unpack(pack(log_mass, log_mass)) == (least, least)


@pytest.mark.parametrize("rank", [-1, 0, 1, 262_144, 2**62 - 1, 2**63])
def test_a_rank_of_the_engines_own_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="in place of what the mask left"):
        unpack(rank)
