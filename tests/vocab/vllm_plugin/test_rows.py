"""The wrappers that return rows, around vLLM's classes; a whole engine is ``tests/wordbound/lm/test_vllm_lm.py``."""

import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.v1.engine.logprobs import LogprobsProcessor
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.sample.prompt_logprob import PromptLogprobsWorker
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from vocab.vllm_plugin import patches, rows
from vocab.vllm_plugin.rows import RowsMissingError, rows_args, rows_of

PLACES = [
    (LogprobsProcessor, "_update_prompt_logprobs"),
    (RequestOutput, "add"),
    (GPUModelRunner, "_get_prompt_logprobs_dict"),
    (PromptLogprobsWorker, "add_request"),
    (PromptLogprobsWorker, "remove_request"),
    (PromptLogprobsWorker, "compute_prompt_logprobs"),
]
ASKING = SamplingParams(max_tokens=1, extra_args=rows_args())
PLAIN = SamplingParams(max_tokens=1)
WEIGHTS = torch.randn(3, 7, generator=torch.Generator().manual_seed(2))
HIDDEN = torch.randn(9, 3, generator=torch.Generator().manual_seed(3))
"""Of a step in which four requests have 4, 1, 3 and 1 tokens."""
STARTS = np.array([0, 4, 5, 8, 9])


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM with these wrappers alone, and afterwards as it was."""
    for owner, name in PLACES:
        monkeypatch.setattr(owner, name, inspect.unwrap(getattr(owner, name)))
    rows.install()
    rows.install()


def compute_logits(hidden_states: torch.Tensor) -> torch.Tensor:
    return hidden_states @ WEIGHTS


def expected(token: int) -> torch.Tensor:
    return compute_logits(HIDDEN[token : token + 1]).log_softmax(-1)


def first_runner(*, unfinished: tuple[int, ...] = (), drafts: object = None, **requests: Any) -> Any:
    runner: Any = GPUModelRunner.__new__(GPUModelRunner)
    runner.num_prompt_logprobs = {}
    runner.input_batch = SimpleNamespace(req_ids=list(requests))
    runner.requests = {
        name: SimpleNamespace(sampling_params=params, output_token_ids=[1] * num_tokens)
        for name, (params, num_tokens) in requests.items()
    }
    runner.discard_request_mask = SimpleNamespace(np=np.isin(np.arange(8), unfinished))
    runner.query_start_loc = SimpleNamespace(np=STARTS)
    runner.speculative_config = drafts
    runner.model = SimpleNamespace(compute_logits=compute_logits)
    return runner


def test_the_first_runner_returns_the_rows_of_those_that_ask() -> None:
    runner = first_runner(a=(ASKING, 1), b=(PLAIN, 1), c=(ASKING, 5), d=(None, 0))
    found = runner._get_prompt_logprobs_dict(HIDDEN, {"a": 4, "b": 1, "c": 3, "d": 1})
    assert set(found) == {"a", "c"}
    for name, token in (("a", 3), ("c", 7)):
        assert found[name].logprobs.dtype == torch.float32
        assert torch.allclose(found[name].logprobs, expected(token))


def test_the_first_runner_returns_nothing_of_a_prompt_that_is_not_finished() -> None:
    runner = first_runner(unfinished=(0,), a=(ASKING, 0), b=(ASKING, 1))
    assert set(runner._get_prompt_logprobs_dict(HIDDEN, {"a": 4, "b": 1})) == {"b"}
    assert first_runner(unfinished=(0,), a=(ASKING, 0))._get_prompt_logprobs_dict(HIDDEN, {"a": 4}) == {}


def test_with_drafts_only_the_first_token_has_a_row() -> None:
    runner = first_runner(drafts=object(), a=(ASKING, 1), b=(ASKING, 2))
    assert set(runner._get_prompt_logprobs_dict(HIDDEN, {"a": 4, "b": 1})) == {"a"}


def test_a_step_without_such_a_request_computes_no_logits() -> None:
    runner = first_runner(a=(PLAIN, 1))
    runner.model = None
    assert runner._get_prompt_logprobs_dict(HIDDEN, {"a": 4}) == {}


def second_worker(**requests: SamplingParams) -> PromptLogprobsWorker:
    worker = PromptLogprobsWorker(8)
    for index, (name, params) in enumerate(requests.items()):
        worker.add_request(name, index, params)
    return worker


def computed(worker: PromptLogprobsWorker, names: list[str], first_logits: list[int], logits_fn: Any) -> dict[str, Any]:
    batch: Any = SimpleNamespace(
        req_ids=names,
        idx_mapping_np=np.arange(len(names)),
        cu_num_logits_np=np.array(first_logits),
        query_start_loc_np=STARTS,
    )
    nothing: Any = None
    found: dict[str, Any] = worker.compute_prompt_logprobs(logits_fn, HIDDEN, batch, nothing, nothing, nothing)
    return found


def test_the_second_runner_returns_the_rows_of_those_that_ask_and_have_one() -> None:
    worker = second_worker(a=ASKING, unfinished=ASKING, plain=PLAIN, d=ASKING)
    found = computed(worker, ["a", "unfinished", "plain", "d"], [0, 1, 1, 2, 3], compute_logits)
    assert set(found) == {"a", "d"}
    assert torch.allclose(found["a"].logprobs, expected(3))
    assert torch.allclose(found["d"].logprobs, expected(8))
    drafted = computed(worker, ["a", "d"], [0, 3, 4], compute_logits)
    assert set(drafted) == {"d"}


def test_the_second_runner_forgets_a_request_that_left() -> None:
    worker = second_worker(a=ASKING)
    worker.remove_request("a")
    worker.add_request("b", 0, PLAIN)
    assert computed(worker, ["a", "b"], [0, 1, 2], None) == {}


def test_a_worker_without_logits_returns_none() -> None:
    # Where several workers share the layers, one of them has the logits.
    assert computed(second_worker(a=ASKING), ["a"], [0, 1], lambda hidden_states: None) == {}


def tensors(*values: float) -> LogprobsTensors:
    nothing = torch.zeros(1, dtype=torch.int32)
    return LogprobsTensors(nothing, torch.tensor([values]), nothing)


def processor(num_prompt_logprobs: int | None = None) -> LogprobsProcessor:
    prompt_logprobs: Any = None if num_prompt_logprobs is None else [None]
    return LogprobsProcessor(None, None, prompt_logprobs, None, None, num_prompt_logprobs)


def output(processor: LogprobsProcessor) -> Any:
    return SimpleNamespace(prompt_logprobs=processor.prompt_logprobs)


def test_the_client_keeps_rows_as_tensors() -> None:
    client = processor()
    client._update_prompt_logprobs(tensors(-1.0, -2.0))
    first = output(client)
    client._update_prompt_logprobs(tensors(-3.0, -4.0))
    assert rows_of(first).tolist() == [[-1.0, -2.0]]
    assert rows_of(output(client)).tolist() == [[-1.0, -2.0], [-3.0, -4.0]]


def test_a_stream_gives_each_row_once() -> None:
    client = processor()
    for value in (-1.0, -2.0):
        client._update_prompt_logprobs(tensors(value))
        assert rows_of(SimpleNamespace(prompt_logprobs=client.pop_prompt_logprobs())).tolist() == [[value]]


def step(rows: list[LogprobsTensors] | None, *tokens: int) -> RequestOutput:
    completion = CompletionOutput(0, "", list(tokens), None, None)
    return RequestOutput("a", None, [1], rows, [completion], finished=False)


def test_no_row_is_lost_where_outputs_are_read_late() -> None:
    streamed = step([tensors(-1.0)], 5)
    streamed.add(step([tensors(-2.0)], 6), aggregate=True)
    assert rows_of(streamed).tolist() == [[-1.0], [-2.0]]
    whole = step([tensors(-1.0)], 5)
    whole.add(step([tensors(-1.0), tensors(-2.0)], 5, 6), aggregate=False)
    assert rows_of(whole).tolist() == [[-1.0], [-2.0]]
    plain = step(None, 5)
    plain.add(step(None, 6), aggregate=True)
    assert plain.prompt_logprobs is None


def test_log_probabilities_of_prompts_are_left_to_vllm() -> None:
    client = processor(num_prompt_logprobs=0)
    token = torch.zeros(1, 1, dtype=torch.int32)
    client._update_prompt_logprobs(LogprobsTensors(token, torch.tensor([[-1.0]]), token[0]))
    assert client.prompt_logprobs is not None
    assert client.prompt_logprobs[1] is not None
    assert client.prompt_logprobs[1][0].logprob == -1.0
    with pytest.raises(RowsMissingError, match="plugin is not installed"):
        rows_of(output(client))


def test_without_rows_the_error_says_why() -> None:
    with pytest.raises(RowsMissingError, match="log at its start"):
        rows_of(output(processor()))


def test_an_engine_with_other_signatures_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_log: list[str] = []
    monkeypatch.setattr(patches.logger, "warning", lambda message, *values: engine_log.append(message % values))
    for owner, name in PLACES:
        monkeypatch.setattr(owner, name, inspect.unwrap(getattr(owner, name)))
    monkeypatch.setattr(PromptLogprobsWorker, "remove_request", lambda self: None)
    rows.install()
    assert PromptLogprobsWorker.add_request is inspect.unwrap(PromptLogprobsWorker.add_request)
    assert [line.startswith("This vLLM returns no next-token rows") for line in engine_log] == [True]
