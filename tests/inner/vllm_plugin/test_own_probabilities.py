"""p before the mask, around vLLM's own classes.

Whole engines are ``tests/e2e/test_log_mass.py`` and ``tests/wordbound/lm/test_vllm_lm.py``.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
import torch
import vllm.v1.worker.gpu_model_runner as model_runner
from vllm import PoolingParams, SamplingParams
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.engine.logprobs import LogprobsProcessor
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu.sample.prompt_logprob import PromptLogprobsWorker
from vllm.v1.worker.gpu.sample.sampler import Sampler as SecondSampler
from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from tests.vocab.vllm_plugin.originals import restore_afterwards
from vocab.matching.log_mass import UNMASKED_TOP, pack, unmark, unpack
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS
from vocab.vllm_plugin import own_probabilities
from vocab.vllm_plugin.masked_mass import (
    MassAsked,
    likeliest,
    measure,
    pack_all,
    report,
    take,
    total_at_once,
    total_row_by_row,
)
from vocab.vllm_plugin.own_probabilities import OWN_PROBABILITIES, RowsMissingError, rows_args, rows_of

OURS: Final = GrammarReference("0" * 64, DEFAULT_OPTIONS, 1000).to_ebnf()
THEIRS: Final = 'root ::= "a"'
TOP: Final = {UNMASKED_TOP: True}
NUM_TOKENS: Final = 64
ALLOWED: Final = [3, 4, 40]
FORBIDDEN: Final = [token for token in range(NUM_TOKENS) if token not in ALLOWED]


@pytest.fixture
def originals(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM as it is without the plugin, and afterwards as it was."""
    for group in OWN_PROBABILITIES:
        for patch in group.patches:
            restore_afterwards(monkeypatch, patch.target)


@pytest.fixture
def installed(originals: None) -> None:
    for group in OWN_PROBABILITIES * 2:
        assert group.install()


def params(grammar: str | None = OURS, **fields: Any) -> SamplingParams:
    structured = StructuredOutputsParams(grammar=grammar) if grammar else None
    return SamplingParams(**{"logprobs": 2, "temperature": 0.0, **fields}, structured_outputs=structured)


ROWS: Final = SamplingParams(max_tokens=1, extra_args=rows_args())
PLAIN: Final = SamplingParams(max_tokens=1)


class FirstRunner:
    """The batch of vLLM's first model runner, with its mask and its sampler."""

    def __init__(self, **requests: SamplingParams | PoolingParams) -> None:
        sizes = {"max_num_reqs": 16, "max_model_len": 32, "max_num_batched_tokens": 32, "vocab_size": NUM_TOKENS}
        blocks = {"block_sizes": [16], "kernel_block_sizes": [16], "max_num_blocks_per_req": [2]}
        self.batch = InputBatch(**sizes, **blocks, device=torch.device("cpu"))
        for name, asked in requests.items():
            self.add(name, asked)

    def add(self, name: str, asked: SamplingParams | PoolingParams) -> None:
        sampling = asked if isinstance(asked, SamplingParams) else None
        request = CachedRequestState(name, [1, 2], [], sampling, None, ([0],), 0, [])
        if sampling is None:
            request.pooling_params = asked
            request.__post_init__()
        self.batch.add_request(request)

    def step(
        self,
        masked: Iterable[str],
        logits: torch.Tensor,
        *,
        allowed: Sequence[int] = ALLOWED,
        drafts: int = 0,
        mode: str = "raw_logprobs",
    ) -> Any:
        """Mask the rows of some requests and sample; ``drafts`` are of the first of these."""
        names = list(masked)
        bits = np.zeros((len(names) + drafts, NUM_TOKENS), dtype=np.uint8)
        bits[:, allowed] = 1
        model_runner.apply_grammar_bitmask(
            SimpleNamespace(scheduled_spec_decode_tokens={names[0]: [0] * drafts} if drafts else {}),
            SimpleNamespace(
                structured_output_request_ids=names, grammar_bitmask=np.packbits(bits, 1, "little").view(np.int32)
            ),
            self.batch,
            logits,
        )
        self.batch.refresh_metadata()
        return Sampler(mode)(logits=logits, sampling_metadata=self.batch.sampling_metadata).logprobs_tensors


def some_logits(num_rows: int) -> torch.Tensor:
    return torch.randn(num_rows, NUM_TOKENS, generator=torch.Generator().manual_seed(5)) * 3


def mass(log_p: torch.Tensor, temperature: float = 1.0) -> float:
    return float((log_p / temperature).log_softmax(-1)[ALLOWED].logsumexp(-1))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("all_ask", [False, True])
def test_masked_rows_of_requests_that_ask_for_it_report_p_and_what_the_mask_left(
    dtype: torch.dtype, all_ask: bool
) -> None:
    regex = StructuredOutputsParams(regex="# wordbound")
    asking = {
        "ours": params(),
        "none but the sampled": params(logprobs=0),
        "a list as a grammar": params("# wordbound\nroot ::= word\n"),
        "the unmasked top": params(THEIRS, extra_args=TOP),
        "cool": params(temperature=0.5),
        "warm": params(temperature=1.0),
        "hot": params(temperature=2.0),
    }
    others: dict[str, Any] = {
        "quiet": params(logprobs=None),
        "quiet top": params(logprobs=None, extra_args=TOP),
        "theirs": params(THEIRS),
        "regex": SamplingParams(logprobs=1, temperature=0.0, structured_outputs=regex),
        "rows": params(THEIRS, extra_args=rows_args()),
        "pooled": PoolingParams(task="embed"),
    }
    free: dict[str, Any] = {"free": params(None), "not masked yet": params()}
    if all_ask:
        others, free = {}, {}
    runner = FirstRunner(**free, **asking, **others)
    logits = some_logits(len(runner.batch.req_ids)).to(dtype)
    log_p = logits.float().log_softmax(-1)
    found = runner.step([*others, *reversed(asking)], logits)
    assert logits[len(free) :, FORBIDDEN].isneginf().all()
    for row, name in enumerate(runner.batch.req_ids):
        tokens, rank = found.logprob_token_ids[row].long(), int(found.selected_token_ranks[row])
        is_p = found.logprobs[row].tolist() == pytest.approx(log_p[row, tokens].tolist(), abs=1e-5)
        if name in asking:
            temperature = asking[name].temperature or 1.0
            assert unpack(rank) == pytest.approx((mass(log_p[row]), mass(log_p[row], temperature)), abs=1e-5)
            assert int(tokens[0]) in ALLOWED
            assert is_p or name == "the unmasked top"
        else:
            assert (rank, is_p) == (1, name in free), name


@pytest.mark.usefixtures("installed")
def test_steps_with_drafts_and_other_modes_and_answers_without_logprobs_are_left_alone() -> None:
    for options in ({"drafts": 2}, {"mode": "raw_logits"}, {"mode": "processed_logprobs"}):
        logits = some_logits(1 + int(options.get("drafts", 0)))
        found = FirstRunner(ours=params()).step(["ours"], logits, **options)
        assert set(found.selected_token_ranks.tolist()) == {1}
        assert logits[-1, FORBIDDEN].isneginf().all()
    runner = FirstRunner(ours=params())
    runner.batch.num_logprobs.clear()
    assert runner.step(["ours"], some_logits(1)) is None


@pytest.mark.usefixtures("installed")
def test_a_request_that_left_or_came_again_is_forgotten_and_engines_go_with_their_tables() -> None:
    runner, other = FirstRunner(ours=params(), again=params()), FirstRunner(theirs=params())
    assert int(other.step(["theirs"], some_logits(1)).selected_token_ranks[0]) > 1
    for name in ("ours", "again"):
        runner.batch.remove_request(name)
    runner.batch.condense()
    runner.add("again", params(None))
    assert runner.step(["again"], some_logits(1)).selected_token_ranks.tolist() == [1]
    known = len(own_probabilities._asking)
    del runner
    assert len(own_probabilities._asking) == known - 1


@pytest.mark.usefixtures("installed")
def test_the_unmasked_top_replaces_that_of_the_mask_and_what_the_mask_took_is_marked() -> None:
    runner = FirstRunner(ours=params(), few=params(extra_args=TOP, logprobs=3), theirs=params(THEIRS, extra_args=TOP))
    logits = some_logits(3)
    log_p = logits.log_softmax(-1)
    found = runner.step(["ours", "few", "theirs"], logits)
    assert set(found.logprob_token_ids[0].tolist()) == set(ALLOWED)
    for row in (1, 2):
        assert found.logprob_token_ids[row, 1:].tolist() == log_p[row].topk(3).indices.tolist()
        for token, value in zip(found.logprob_token_ids[row].tolist(), found.logprobs[row].tolist(), strict=True):
            found_log_p, is_marked = unmark(value)
            assert found_log_p == pytest.approx(float(log_p[row, token]), abs=1e-5)
            assert is_marked == (token not in ALLOWED)
    # A sampled token that the mask left alone is marked wherever it is; the other row is vLLM's own.
    logits = torch.zeros(2, NUM_TOKENS)
    runner = FirstRunner(free=params(None), forced=params(extra_args=TOP, logprobs=6))
    free, forced = runner.step(["forced"], logits, allowed=[1]).logprobs.tolist()
    assert [unmark(value)[0] for value in forced] == pytest.approx([-np.log(NUM_TOKENS)] * 7, abs=1e-5)
    assert all(unmark(value)[1] for value in forced)
    assert free == pytest.approx([-np.log(NUM_TOKENS)] * 7)


# Next-token rows.

WEIGHTS: Final = torch.randn(3, 7, generator=torch.Generator().manual_seed(2))
HIDDEN: Final = torch.randn(9, 3, generator=torch.Generator().manual_seed(3))
"""Of a step in which four requests have 4, 1, 3 and 1 tokens."""
STARTS: Final = np.array([0, 4, 5, 8, 9])


def compute_logits(hidden_states: torch.Tensor) -> torch.Tensor:
    return hidden_states @ WEIGHTS


def assert_rows(found: dict[str, LogprobsTensors], last_tokens: dict[str, int]) -> None:
    assert found.keys() == last_tokens.keys()
    for name, token in last_tokens.items():
        assert found[name].logprobs.dtype == torch.float32
        assert torch.allclose(found[name].logprobs, compute_logits(HIDDEN[token : token + 1]).log_softmax(-1))


@pytest.mark.usefixtures("installed")
def test_the_first_runner_returns_the_rows_of_those_that_ask_and_have_one() -> None:
    rows, pooled = ROWS, PoolingParams(task="embed")
    for requests, drawn, unfinished, drafts, expected in (
        ({"a": rows, "b": PLAIN, "c": rows, "d": pooled}, (1, 1, 5, 0), (), None, {"a": 3, "c": 7}),
        ({"a": rows, "b": rows}, (0, 1), (0,), None, {"b": 4}),
        ({"a": rows}, (0,), (0,), None, {}),
        # With drafts only the first token has a row.
        ({"a": rows, "b": rows}, (1, 2), (), object(), {"a": 3}),
        ({"a": PLAIN}, (1,), (), None, {}),
    ):
        runner: Any = GPUModelRunner.__new__(GPUModelRunner)
        runner.num_prompt_logprobs = {}
        runner.input_batch = FirstRunner(**requests).batch
        runner.requests = {
            name: SimpleNamespace(output_token_ids=[1] * num) for name, num in zip(requests, drawn, strict=True)
        }
        runner.discard_request_mask = SimpleNamespace(np=np.isin(np.arange(8), unfinished))
        runner.query_start_loc = SimpleNamespace(np=STARTS)
        runner.speculative_config = drafts
        # Where nobody asks, no logits are computed.
        runner.model = SimpleNamespace(compute_logits=compute_logits) if expected else None
        assert_rows(runner._get_prompt_logprobs_dict(HIDDEN, {}), expected)


@pytest.mark.usefixtures("originals")
def test_the_second_runner_reports_p_and_returns_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its kernels need a GPU: what stands in their place here masks and samples as they do.
    def mask(self: Any, logits: Any, input_batch: Any, grammar_req_ids: Any, grammar_bitmask: Any) -> None:
        logits[0, FORBIDDEN] = -torch.inf

    def sample(self: Any, logits: torch.Tensor, input_batch: Any) -> Any:
        tokens, ranks = torch.arange(NUM_TOKENS)[None], torch.ones(1).long()
        return SimpleNamespace(logprobs_tensors=LogprobsTensors(tokens, logits.log_softmax(-1), ranks))

    monkeypatch.setattr(SecondSampler, "add_request", lambda self, req_idx, prompt_len, sampling_params: None)
    monkeypatch.setattr(SecondSampler, "__call__", sample)
    monkeypatch.setattr(StructuredOutputsWorker, "apply_grammar_bitmask", mask)
    assert all(group.install() for group in OWN_PROBABILITIES)
    ids: dict[str, int] = {}
    sampler: Any = SecondSampler.__new__(SecondSampler)
    sampler.logprobs_mode = "raw_logprobs"
    sampler.req_states = type("Requests", (), {"req_id_to_index": ids, "index_to_req_id": {}})()

    def add(**requests: SamplingParams) -> None:
        for index, (name, asked) in enumerate(requests.items()):
            ids[name], sampler.req_states.index_to_req_id[index] = index, name
            sampler.add_request(index, 5, asked)

    def rows(names: list[str], first_logits: list[int], logits_fn: Any = compute_logits) -> dict[str, LogprobsTensors]:
        batch: Any = SimpleNamespace(
            req_ids=names,
            idx_mapping_np=np.arange(len(names)),
            cu_num_logits_np=np.array(first_logits),
            query_start_loc_np=STARTS,
        )
        nothing: Any = None
        worker = PromptLogprobsWorker(8)
        return dict(worker.compute_prompt_logprobs(logits_fn, HIDDEN, batch, nothing, nothing, nothing))

    add(ours=params())
    logits = some_logits(1)
    log_p, batch = logits.log_softmax(-1), SimpleNamespace(req_ids=["ours"])
    StructuredOutputsWorker.apply_grammar_bitmask(None, logits, batch, ["ours"], None)
    found = sampler(logits, batch).logprobs_tensors
    assert torch.allclose(found.logprobs[0, ALLOWED], log_p[0, ALLOWED], atol=1e-5)
    assert unpack(int(found.selected_token_ranks[0]))[0] == pytest.approx(mass(log_p[0]), abs=1e-5)
    add(a=ROWS, unfinished=ROWS, plain=PLAIN, d=ROWS)
    assert_rows(rows(["a", "unfinished", "plain", "d"], [0, 1, 1, 2, 3]), {"a": 3, "d": 8})
    # Several logits where there are drafts.
    assert_rows(rows(["a", "d"], [0, 3, 4]), {"d": 4})
    # Where several workers share the layers, one of them has the logits.
    assert rows(["a"], [0, 1], lambda hidden_states: None) == {}
    del ids["a"]
    add(b=PLAIN)
    assert rows(["a", "b"], [0, 1, 2]) == {}


# The client.


def tensors(value: float) -> LogprobsTensors:
    nothing = torch.zeros(1, dtype=torch.int32)
    return LogprobsTensors(nothing, torch.tensor([[value]]), nothing)


def processor(num_prompt_logprobs: int | None = None) -> LogprobsProcessor:
    prompt_logprobs: Any = None if num_prompt_logprobs is None else [None]
    return LogprobsProcessor(None, None, prompt_logprobs, None, None, num_prompt_logprobs)


def output(rows: list[LogprobsTensors] | None) -> RequestOutput:
    return RequestOutput("a", None, [1], rows, [CompletionOutput(0, "", [5], None, None)], finished=False)


@pytest.mark.usefixtures("installed")
def test_the_client_gives_each_row_once_as_a_tensor_and_none_is_lost_where_outputs_are_read_late() -> None:
    whole, streaming = processor(), processor()
    outputs, streamed = [], []
    for value in (-1.0, -2.0):
        for client in (whole, streaming):
            client._update_prompt_logprobs(tensors(value))
        outputs.append(output(whole.prompt_logprobs))
        streamed.append(output(streaming.pop_prompt_logprobs()))
    assert [rows_of(each).tolist() for each in outputs] == [[[-1.0]], [[-1.0], [-2.0]]]
    assert [rows_of(each).tolist() for each in streamed] == [[[-1.0]], [[-2.0]]]
    for first, second, aggregate in ((*outputs, False), (*streamed, True)):
        first.add(second, aggregate=aggregate)
        assert rows_of(first).tolist() == [[-1.0], [-2.0]]
    plain = output(None)
    plain.add(output(None), aggregate=True)
    assert plain.prompt_logprobs is None


@pytest.mark.usefixtures("installed")
def test_log_probabilities_of_prompts_are_left_to_vllm_and_without_rows_the_error_says_why() -> None:
    client = processor(num_prompt_logprobs=0)
    token = torch.zeros(1, 1, dtype=torch.int32)
    client._update_prompt_logprobs(LogprobsTensors(token, torch.tensor([[-1.0]]), token[0]))
    assert client.prompt_logprobs is not None and client.prompt_logprobs[1] is not None
    assert client.prompt_logprobs[1][0].logprob == -1.0
    for prompt_logprobs in (client.prompt_logprobs, None):
        with pytest.raises(RowsMissingError, match=r"plugin is not installed in it.* log at its start"):
            rows_of(output(prompt_logprobs))


# How rows are measured.


def test_a_gpu_counts_as_a_cpu_does_and_a_measure_is_taken_once_and_from_its_own_logits() -> None:
    for rows, temperatures in product(([2], [0, 3], [0, 1, 2, 3]), ([1.0] * 4, [0.5, 1.0, 1.0, 2.0], [0.7] * 4)):
        logits, own = some_logits(4), temperatures[: len(rows)]
        logits[2, FORBIDDEN] = -torch.inf
        values = logits[rows].double()
        expected = [values.logsumexp(-1), (values / torch.tensor(own)[:, None]).logsumexp(-1)]
        for total in (total_row_by_row, total_at_once):
            for found, correct in zip(total(logits, rows, own), expected, strict=True):
                assert found.dtype == torch.float32
                assert found.tolist() == pytest.approx(correct.tolist(), abs=1e-5)
        before = logits.clone()
        measure(logits, {row: MassAsked(1.0) for row in rows}, lambda: None)
        assert torch.equal(logits, before)
        assert not take(logits.clone())
        assert take(logits)
        assert not take(logits)


def test_what_two_masks_of_one_step_leave_is_reported_for_the_rows_of_both() -> None:
    logits = some_logits(3)
    log_p = logits.log_softmax(-1)

    def mask(row: int) -> None:
        logits[row, FORBIDDEN] = -torch.inf

    for row in (0, 2):
        measure(logits, {row: MassAsked(1.0)}, partial(mask, row))
    tokens = torch.arange(NUM_TOKENS).expand(3, -1)
    found = LogprobsTensors(tokens, logits.log_softmax(-1), torch.ones(3).long())
    for one in take(logits):
        found = report(one, found)
    for row in (0, 2):
        assert torch.allclose(found.logprobs[row, ALLOWED], log_p[row, ALLOWED], atol=1e-5)
        assert unpack(int(found.selected_token_ranks[row]))[0] == pytest.approx(mass(log_p[row]), abs=1e-5)
    assert torch.equal(found.logprobs[1], log_p[1]) and int(found.selected_token_ranks[1]) == 1


def test_the_likeliest_are_those_of_topk() -> None:
    for num_tokens, k in product((6, 512, 2048, 49_152, 49_155), (0, 1, 2, 5, 6)):
        logits = torch.randn(3, num_tokens, generator=torch.Generator().manual_seed(k))
        logits[1, 1:] = -torch.inf
        logits[2, -1] = 9.0
        values, tokens = likeliest(logits, k)
        assert torch.equal(values, logits.topk(k).values)
        assert torch.equal(logits.gather(1, tokens), values)
        assert all(len(set(row)) == k for row in tokens.tolist())


def test_what_is_packed_together_is_what_is_packed_alone() -> None:
    log_masses = [0.0, 1e-7, -1e-7, -0.5, -17.25, -2047.5, -3000.0, -torch.inf, torch.nan]
    tensor = torch.tensor(log_masses, dtype=torch.float32)
    packed = pack_all(tensor, tensor.flip(0))
    assert packed.dtype == torch.int64
    as_float32 = tensor.tolist()
    assert packed.tolist() == [pack(mass, other) for mass, other in zip(as_float32, as_float32[::-1], strict=True)]
    nothing = torch.full((1, 6), -torch.inf)
    measure(nothing, {0: MassAsked(1.0)}, lambda: None)
    [found] = take(nothing)
    assert unpack(int(pack_all(found.log_mass, found.log_weight_mass)[0]))[0] < -2000
