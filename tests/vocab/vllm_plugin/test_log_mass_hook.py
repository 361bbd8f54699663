"""The wrappers around vLLM's own classes; a whole engine is ``tests/e2e/test_log_mass.py``."""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import vllm.v1.worker.gpu_model_runner as runner
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu.sample.sampler import Sampler as SecondSampler
from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker
from vllm.v1.worker.gpu_input_batch import InputBatch

from vocab.matching.log_mass import UNMASKED_TOP, pack, unmark, unpack
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS
from vocab.vllm_plugin import log_mass_hook, patches
from vocab.vllm_plugin.log_mass_hook import (
    Asked,
    MaskedMass,
    likeliest,
    measure,
    pack_all,
    report,
    take,
    total_at_once,
    total_row_by_row,
)

PLACES = [
    (InputBatch, "add_request"),
    (runner, "apply_grammar_bitmask"),
    (Sampler, "forward"),
    (SecondSampler, "add_request"),
    (StructuredOutputsWorker, "apply_grammar_bitmask"),
    (SecondSampler, "__call__"),
]
OURS = GrammarReference("0" * 64, DEFAULT_OPTIONS, 1000).to_ebnf()
NUM_TOKENS = 64
ALLOWED = [3, 4, 40]


@pytest.fixture
def unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM as it was, and as it will be again."""
    for owner, name in PLACES:
        monkeypatch.setattr(owner, name, inspect.unwrap(getattr(owner, name)))


def params(grammar: str | None = OURS, **fields: Any) -> SamplingParams:
    structured = StructuredOutputsParams(grammar=grammar) if grammar else None
    return SamplingParams(**{"logprobs": 2, "temperature": 0.0, **fields}, structured_outputs=structured)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (params(), True),
        (params(logprobs=0), True),
        (params("# wordbound\nroot ::= word\n"), True),
        (params(logprobs=None), False),
        (params(None), False),
        (params('root ::= "yes"'), False),
        (SamplingParams(logprobs=1, structured_outputs=StructuredOutputsParams(regex="# wordbound")), False),
        (params('root ::= "yes"', extra_args={UNMASKED_TOP: True}), True),
        (params(logprobs=None, extra_args={UNMASKED_TOP: True}), False),
    ],
)
def test_who_wants_the_mass(asked: SamplingParams, expected: bool) -> None:
    assert log_mass_hook.wants_mass(asked) is expected


class Table:
    """Whatever holds requests."""

    def __init__(self, **requests: SamplingParams | None) -> None:
        self.ids: dict[str, int] = {}
        for request_id, asked in requests.items():
            self.add(request_id, asked)

    def add(self, request_id: str, asked: SamplingParams | None) -> None:
        self.ids[request_id] = len(self.ids)
        log_mass_hook.remember(self, self.ids, request_id, asked)


def apply_and_sample(table: Table, masked: list[str], logits: torch.Tensor, logprobs_mode: str = "raw_logprobs") -> Any:
    """One step of these requests, of which these are masked: the sampler's logprobs."""

    def mask() -> None:
        for row, request_id in enumerate(table.ids):
            if request_id in masked:
                logits[row, [token for token in range(NUM_TOKENS) if token not in ALLOWED]] = -torch.inf

    log_mass_hook.apply_and_measure(logits, list(table.ids), masked, mask)
    logprobs = LogprobsTensors(
        torch.arange(NUM_TOKENS).expand(len(logits), -1), logits.log_softmax(-1), torch.ones(len(logits)).long()
    )
    output = SamplerOutput(torch.zeros(len(logits), 1), logprobs)
    sampler = SimpleNamespace(logprobs_mode=logprobs_mode)
    return log_mass_hook.sample_and_report(sampler, logits, lambda: output).logprobs_tensors


def some_logits(num_rows: int) -> torch.Tensor:
    return torch.randn(num_rows, NUM_TOKENS, generator=torch.Generator().manual_seed(5)) * 3


def test_only_masked_rows_of_requests_that_want_it_report_p() -> None:
    table = Table(
        free=params(None), ours=params(), quiet=params(logprobs=None), other=params('root ::= "a"'), pooled=None
    )
    logits = some_logits(5)
    log_p = logits.log_softmax(-1)
    reported = apply_and_sample(table, ["other", "quiet", "ours", "gone"], logits)
    is_p = [torch.allclose(reported.logprobs[row, ALLOWED], log_p[row, ALLOWED], atol=1e-5) for row in range(5)]
    assert is_p == [True, True, False, False, True]
    ranks = reported.selected_token_ranks.tolist()
    assert ranks[:1] + ranks[2:] == [1] * 4
    assert unpack(ranks[1])[0] == pytest.approx(float(log_p[1, ALLOWED].logsumexp(-1)), abs=1e-5)


def test_each_row_has_its_own_temperature_and_none_counts_as_one() -> None:
    table = Table(greedy=params(), cool=params(temperature=0.5), plain=params(temperature=1.0))
    logits = some_logits(3)
    before = logits.clone()
    ranks = apply_and_sample(table, ["greedy", "cool", "plain"], logits).selected_token_ranks.tolist()
    for rank, row, temperature in zip(ranks, before, (1.0, 0.5, 1.0), strict=True):
        expected = [float((row / t).log_softmax(-1)[ALLOWED].logsumexp(-1)) for t in (1.0, temperature)]
        assert unpack(rank) == pytest.approx(expected, abs=1e-5)


def test_steps_with_drafts_are_left_alone() -> None:
    table = Table(ours=params())
    logits = some_logits(3)
    assert apply_and_sample(table, ["ours"], logits).selected_token_ranks.tolist() == [1, 1, 1]
    assert logits[0].isinf().sum() == NUM_TOKENS - len(ALLOWED)


def test_the_unmasked_top_replaces_that_of_the_mask_in_rows_that_ask_for_it() -> None:
    top = {UNMASKED_TOP: True}
    table = Table(ours=params(), few=params(extra_args=top, logprobs=3), other=params('root ::= "a"', extra_args=top))
    logits = some_logits(3)
    log_p = logits.log_softmax(-1)
    reported = apply_and_sample(table, list(table.ids), logits)
    plain = apply_and_sample(Table(ours=params()), ["ours"], some_logits(3)[:1])
    assert torch.equal(reported.logprob_token_ids[0], plain.logprob_token_ids[0])
    for row in (1, 2):
        # The stand-in of a sampler took token 0, which the mask forbids.
        tokens, values = reported.logprob_token_ids[row, 1:4], reported.logprobs[row, 1:4]
        assert tokens.tolist() == log_p[row].topk(3).indices.tolist()
        for token, value in zip(tokens.tolist(), values.tolist(), strict=True):
            found, is_marked = unmark(value)
            assert found == pytest.approx(float(log_p[row, token]), abs=1e-5)
            assert is_marked == (token not in ALLOWED)


@pytest.mark.parametrize("num_tokens", [6, 512, 2048, 49_152, 49_155])
@pytest.mark.parametrize("k", [0, 1, 2, 5, 6])
def test_the_likeliest_are_those_of_topk(num_tokens: int, k: int) -> None:
    logits = torch.randn(3, num_tokens, generator=torch.Generator().manual_seed(k))
    logits[1, 1:] = -torch.inf
    logits[2, -1] = 9.0
    values, tokens = likeliest(logits, k)
    assert torch.equal(values, logits.topk(k).values)
    assert torch.equal(logits.gather(1, tokens), values)
    assert all(len(set(row)) == k for row in tokens.tolist())


def test_a_sampled_token_that_the_mask_left_alone_is_marked_wherever_it_is() -> None:
    logits = torch.zeros(2, 6)
    log_p = float(logits.log_softmax(-1)[1, 1])
    measure(logits, {1: Asked(1.0, 6)}, masking(logits, [1]))
    ids = torch.tensor([[1, 1, 0, 2, 3, 4, 5]]).expand(2, -1)
    vllms = LogprobsTensors(ids, torch.zeros(2, 7), torch.ones(2).long())
    mass = take(logits)
    assert mass is not None
    # log q is 0 of the one token that is left.
    found = report(mass, vllms)
    assert found.logprob_token_ids[1, 0] == 1
    assert sorted(found.logprob_token_ids[1, 1:].tolist()) == list(range(6))
    assert [unmark(value)[1] for value in found.logprobs[1].tolist()] == [True] * 7
    assert [unmark(value)[0] for value in found.logprobs[1].tolist()] == pytest.approx([log_p] * 7)
    assert not any(found.logprobs[0].tolist()), "the other row is vLLM's own"


@pytest.mark.parametrize("mode", ["raw_logits", "processed_logprobs"])
def test_other_modes_are_left_alone(mode: str) -> None:
    assert apply_and_sample(Table(ours=params()), ["ours"], some_logits(1), mode).selected_token_ranks.tolist() == [1]


def test_a_request_that_left_or_came_again_is_forgotten() -> None:
    table = Table(ours=params(), again=params())
    del table.ids["ours"]
    table.add("again", params(None))
    table.ids = {"ours": 0, "again": 1}
    assert apply_and_sample(table, ["ours", "again"], some_logits(2)).selected_token_ranks.tolist() == [1, 1]


def test_two_engines_in_one_process_are_told_apart_and_go_with_their_tables() -> None:
    first, second = Table(a=params()), Table(b=params())
    assert apply_and_sample(first, ["a"], some_logits(1)).selected_token_ranks[0] > 1
    assert apply_and_sample(second, ["b"], some_logits(1)).selected_token_ranks[0] > 1
    known = len(log_mass_hook._asking)
    del first
    assert len(log_mass_hook._asking) == known - 1


def metadata(num_rows: int, num_logprobs: int | None) -> SamplingMetadata:
    return SamplingMetadata(
        temperature=None,
        all_greedy=True,
        all_random=False,
        top_p=None,
        top_k=None,
        generators={},
        max_num_logprobs=num_logprobs,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=torch.zeros(num_rows),
        presence_penalties=torch.zeros(num_rows),
        repetition_penalties=torch.ones(num_rows),
        output_token_ids=[[] for _ in range(num_rows)],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors(),
    )


@pytest.mark.usefixtures("unwrapped")
def test_the_first_model_runner_reports_p() -> None:
    log_mass_hook.install()
    log_mass_hook.install()
    batch = InputBatch(
        max_num_reqs=4,
        max_model_len=32,
        max_num_batched_tokens=32,
        device=torch.device("cpu"),
        vocab_size=NUM_TOKENS,
        block_sizes=[16],
        kernel_block_sizes=[16],
        max_num_blocks_per_req=[2],
    )
    for request_id, asked in (("free", params(None)), ("ours", params())):
        batch.add_request(cached_request(request_id, asked))
    logits = some_logits(2)
    log_p = logits.log_softmax(-1)
    bitmask = np.zeros((1, NUM_TOKENS // 32), dtype=np.int32)
    for token in ALLOWED:
        bitmask[0, token // 32] |= 1 << token % 32
    runner.apply_grammar_bitmask(
        SimpleNamespace(scheduled_spec_decode_tokens={}),
        SimpleNamespace(structured_output_request_ids=["ours"], grammar_bitmask=bitmask),
        batch,
        logits,
    )
    sampler = Sampler()
    output = sampler(logits=logits, sampling_metadata=metadata(2, 2))
    found = output.logprobs_tensors
    for row in range(2):
        tokens = found.logprob_token_ids[row].long()
        assert found.logprobs[row].tolist() == pytest.approx(log_p[row, tokens].tolist(), abs=1e-5)
    assert found.selected_token_ranks[0] == 1
    assert unpack(int(found.selected_token_ranks[1]))[0] == pytest.approx(
        float(log_p[1, ALLOWED].logsumexp(-1)), abs=1e-5
    )
    assert int(output.sampled_token_ids[1]) in ALLOWED
    assert sampler(logits=logits, sampling_metadata=metadata(2, None)).logprobs_tensors is None


def cached_request(request_id: str, asked: SamplingParams) -> Any:
    return runner.CachedRequestState(
        req_id=request_id,
        prompt_token_ids=[1, 2],
        mm_features=[],
        sampling_params=asked,
        generator=None,
        block_ids=([0],),
        num_computed_tokens=0,
        output_token_ids=[],
    )


@pytest.mark.usefixtures("unwrapped")
def test_the_second_model_runner_reports_p(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its kernels need a GPU: what stands in their place here masks and samples as they do.
    logits = some_logits(1)
    log_p = logits.log_softmax(-1)

    def mask(self: Any, logits: Any, input_batch: Any, grammar_req_ids: Any, grammar_bitmask: Any) -> None:
        logits[0, [token for token in range(NUM_TOKENS) if token not in ALLOWED]] = -torch.inf

    def sample(self: Any, logits: torch.Tensor, input_batch: Any) -> Any:
        ranks = torch.ones(1).long()
        logprobs = LogprobsTensors(torch.arange(NUM_TOKENS)[None], logits.log_softmax(-1), ranks)
        return SimpleNamespace(logprobs_tensors=logprobs)

    stand_ins: dict[tuple[Any, str], Callable[..., Any]] = {
        (SecondSampler, "add_request"): lambda self, req_idx, prompt_len, sampling_params: None,
        (StructuredOutputsWorker, "apply_grammar_bitmask"): mask,
        (SecondSampler, "__call__"): sample,
    }
    for (owner, name), stand_in in stand_ins.items():
        monkeypatch.setattr(owner, name, stand_in)
    log_mass_hook.install()
    sampler, worker = SecondSampler.__new__(SecondSampler), StructuredOutputsWorker.__new__(StructuredOutputsWorker)
    sampler.logprobs_mode = "raw_logprobs"
    sampler.req_states = RequestTable({"ours": 3}, {3: "ours"})
    sampler.add_request(3, 5, params())
    batch = SimpleNamespace(req_ids=["ours"])
    worker.apply_grammar_bitmask(logits, batch, ["ours"], None)
    found = sampler(logits, batch).logprobs_tensors
    assert torch.allclose(found.logprobs[0, ALLOWED], log_p[0, ALLOWED], atol=1e-5)
    assert unpack(int(found.selected_token_ranks[0]))[0] == pytest.approx(
        float(log_p[0, ALLOWED].logsumexp(-1)), abs=1e-5
    )


class RequestTable:
    def __init__(self, req_id_to_index: dict[str, int], index_to_req_id: dict[int, str]) -> None:
        self.req_id_to_index = req_id_to_index
        self.index_to_req_id = index_to_req_id


@pytest.mark.usefixtures("unwrapped")
def test_a_runner_with_another_signature_is_left_as_it_is_and_the_other_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine_log: list[str] = []
    monkeypatch.setattr(patches.logger, "warning", lambda message, *values: engine_log.append(message % values))
    before = InputBatch.add_request, Sampler.forward
    monkeypatch.setattr(runner, "apply_grammar_bitmask", lambda scheduler_output, logits: None)
    log_mass_hook.install()
    assert (InputBatch.add_request, Sampler.forward) == before
    assert inspect.unwrap(SecondSampler.__call__) is not SecondSampler.__call__
    assert len(engine_log) == 1
    assert "what a word list costs" in engine_log[0]


MAY_COME = [[0, 3], [1], [2, 4, 5], list(range(6))]
"""In each of four rows of six tokens."""


class Logprobs(NamedTuple):
    """The fields of vLLM's ``LogprobsTensors`` that matter here."""

    logprobs: torch.Tensor
    selected_token_ranks: torch.Tensor


def asked(rows: list[int], temperatures: list[float]) -> dict[int, Asked]:
    return {row: Asked(temperature) for row, temperature in zip(rows, temperatures, strict=True)}


def logits_of(dtype: torch.dtype) -> torch.Tensor:
    return (torch.randn(4, 6, generator=torch.Generator().manual_seed(1)) * 4).to(dtype)


def masking(logits: torch.Tensor, rows: list[int]) -> Callable[[], None]:
    def apply() -> None:
        for row in rows:
            forbidden = [token for token in range(6) if token not in MAY_COME[row]]
            logits[row, forbidden] = -torch.inf

    return apply


def enumerated(logits: torch.Tensor, row: int, temperature: float) -> float:
    p = (logits[row].double() / temperature).softmax(-1)
    return float(p[MAY_COME[row]].sum().log())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [[0], [1, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("temperatures", [[1.0] * 4, [0.5, 1.0, 1.0, 2.0], [0.7] * 4])
def test_the_mass_is_the_sum_over_the_tokens_that_may_come(
    dtype: torch.dtype, rows: list[int], temperatures: list[float]
) -> None:
    logits = logits_of(dtype)
    before = logits.clone()
    measure(logits, asked(rows, temperatures[: len(rows)]), masking(logits, [0, 1, 2, 3]))
    mass = take(logits)
    assert mass is not None
    assert (mass.rows is None) == (len(rows) == 4)
    assert mass.log_mass.tolist() == pytest.approx([enumerated(before, row, 1.0) for row in rows], abs=1e-5)
    expected = [enumerated(before, row, t) for row, t in zip(rows, temperatures, strict=False)]
    assert mass.log_weight_mass.tolist() == pytest.approx(expected, abs=1e-5)


def test_the_mask_is_applied_as_it_would_be_alone() -> None:
    logits, alone = logits_of(torch.float32), logits_of(torch.float32)
    measure(logits, asked([1, 2], [1.0, 0.7]), masking(logits, [1, 2]))
    masking(alone, [1, 2])()
    assert torch.equal(logits, alone)


def test_a_measure_is_taken_once_and_from_its_own_logits_only() -> None:
    logits = logits_of(torch.float32)
    measure(logits, asked([0], [1.0]), masking(logits, [0]))
    assert take(logits.clone()) is None
    assert take(logits) is not None
    assert take(logits) is None


@pytest.mark.parametrize("rows", [[0, 2], [0, 1, 2, 3]])
def test_the_sampler_reports_p_for_the_measured_rows_and_leaves_the_others(rows: list[int]) -> None:
    logits = logits_of(torch.float32)
    log_p = logits.log_softmax(-1)
    measure(logits, asked(rows, [1.0] * len(rows)), masking(logits, rows))
    mass = take(logits)
    assert mass is not None
    log_q, ranks = logits.log_softmax(-1), torch.tensor([1, 2, 1, 1])
    reported = report(mass, Logprobs(log_q.clone(), ranks.clone()))
    for row in range(4):
        rank = int(reported.selected_token_ranks[row])
        if row in rows:
            assert reported.logprobs[row, MAY_COME[row]].tolist() == pytest.approx(log_p[row, MAY_COME[row]].tolist())
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
    measure(nothing, asked([0], [1.0]), lambda: None)
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
