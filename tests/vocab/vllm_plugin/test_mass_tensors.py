from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from vocab.matching.log_mass import pack, unpack
from vocab.vllm_plugin.mass_tensors import MaskedMass, measure, pack_all, report, take, total_at_once, total_row_by_row

ALLOWED = [[0, 3], [1], [2, 4, 5], list(range(6))]


class Logprobs(NamedTuple):
    """The fields of vLLM's ``LogprobsTensors`` that matter here."""

    logprobs: torch.Tensor
    selected_token_ranks: torch.Tensor


def logits_of(dtype: torch.dtype) -> torch.Tensor:
    return (torch.randn(4, 6, generator=torch.Generator().manual_seed(1)) * 4).to(dtype)


def masking(logits: torch.Tensor, rows: list[int]) -> Callable[[], None]:
    def apply() -> None:
        for row in rows:
            forbidden = [token for token in range(6) if token not in ALLOWED[row]]
            logits[row, forbidden] = -torch.inf

    return apply


def enumerated(logits: torch.Tensor, row: int, temperature: float) -> float:
    p = (logits[row].double() / temperature).softmax(-1)
    return float(p[ALLOWED[row]].sum().log())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [[0], [1, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("temperatures", [[1.0] * 4, [0.5, 1.0, 1.0, 2.0], [0.7] * 4])
def test_the_mass_is_the_sum_over_the_tokens_that_may_come(
    dtype: torch.dtype, rows: list[int], temperatures: list[float]
) -> None:
    logits = logits_of(dtype)
    before = logits.clone()
    measure(logits, rows, temperatures[: len(rows)], masking(logits, [0, 1, 2, 3]))
    mass = take(logits)
    assert mass is not None
    assert (mass.rows is None) == (len(rows) == 4)
    assert mass.log_mass.tolist() == pytest.approx([enumerated(before, row, 1.0) for row in rows], abs=1e-5)
    expected = [enumerated(before, row, t) for row, t in zip(rows, temperatures, strict=False)]
    assert mass.log_weight_mass.tolist() == pytest.approx(expected, abs=1e-5)


def test_the_mask_is_applied_as_it_would_be_alone() -> None:
    logits, alone = logits_of(torch.float32), logits_of(torch.float32)
    measure(logits, [1, 2], [1.0, 0.7], masking(logits, [1, 2]))
    masking(alone, [1, 2])()
    assert torch.equal(logits, alone)


def test_a_measure_is_taken_once_and_from_its_own_logits_only() -> None:
    logits = logits_of(torch.float32)
    measure(logits, [0], [1.0], masking(logits, [0]))
    assert take(logits.clone()) is None
    assert take(logits) is not None
    assert take(logits) is None


@pytest.mark.parametrize("rows", [[0, 2], [0, 1, 2, 3]])
def test_the_sampler_reports_p_for_the_measured_rows_and_leaves_the_others(rows: list[int]) -> None:
    logits = logits_of(torch.float32)
    log_p = logits.log_softmax(-1)
    measure(logits, rows, [1.0] * len(rows), masking(logits, rows))
    mass = take(logits)
    assert mass is not None
    log_q, ranks = logits.log_softmax(-1), torch.tensor([1, 2, 1, 1])
    reported = report(mass, Logprobs(log_q.clone(), ranks.clone()))
    for row in range(4):
        rank = int(reported.selected_token_ranks[row])
        if row in rows:
            assert reported.logprobs[row, ALLOWED[row]].tolist() == pytest.approx(log_p[row, ALLOWED[row]].tolist())
            assert torch.equal(reported.logprobs[row].isinf(), log_q[row].isinf())
            assert unpack(rank) == pytest.approx((enumerated(log_p, row, 1.0),) * 2, abs=1e-5)
        else:
            assert torch.equal(reported.logprobs[row], log_q[row])
            assert rank == ranks[row]


def test_what_is_packed_together_is_what_is_packed_alone() -> None:
    log_masses = [0.0, 1e-7, -1e-7, -0.5, -17.25, -2047.5, -3000.0, -torch.inf, torch.nan]
    tensor = torch.tensor(log_masses, dtype=torch.float32)
    packed = pack_all(tensor, tensor.flip(0))
    assert packed.dtype == torch.int64
    as_float32 = tensor.tolist()
    assert packed.tolist() == [pack(mass, other) for mass, other in zip(as_float32, as_float32[::-1], strict=True)]


def test_a_row_in_which_nothing_may_come_has_no_mass() -> None:
    nothing = torch.full((1, 6), -torch.inf)
    measure(nothing, [0], [1.0], lambda: None)
    mass = take(nothing)
    assert isinstance(mass, MaskedMass)
    assert unpack(int(pack_all(mass.log_mass, mass.log_weight_mass)[0]))[0] < -2000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [[2], [0, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("temperatures", [[1.0] * 4, [0.5, 1.0, 1.0, 2.0], [0.7] * 4])
def test_a_gpu_counts_as_a_cpu_does(dtype: torch.dtype, rows: list[int], temperatures: list[float]) -> None:
    logits, own = logits_of(dtype), temperatures[: len(rows)]
    masking(logits, [2])()
    expected = [logits[rows].double().logsumexp(-1), (logits[rows].double() / torch.tensor(own)[:, None]).logsumexp(-1)]
    for total in (total_row_by_row, total_at_once):
        for found, correct in zip(total(logits, rows, own), expected, strict=True):
            assert found.dtype == torch.float32
            assert found.tolist() == pytest.approx(correct.tolist(), abs=1e-5)
