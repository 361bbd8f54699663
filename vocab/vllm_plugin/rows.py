"""Have vLLM return next-token rows: the model's log-probability of every token, as a tensor.

vLLM's own ``logprobs=-1`` makes a Python object of each token: 14 ms a row at 49,152 tokens, 80 ms at 262,144. Here a
row is a float32 tensor of V numbers from the worker to the client. It is the log-softmax of the model's logits, before
masks, temperatures, penalties and biases; the tokens of the request are drawn as ever.

A request asks with ``rows_args`` in its ``extra_args``; its rows arrive where vLLM returns the log-probabilities of
prompts, one for each generated token, and ``rows_of`` reads them. Two model runners exist, and each has one place in
which those are computed, on all workers alike. The logits are computed a second time there: in-place changes by masks
and samplers cannot reach them, and the cost is one more output layer for the rows that were asked for. A runner with
drafts returns the row of the first token alone, as a step may have several.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from vllm.outputs import RequestOutput
from vllm.v1.outputs import LogprobsTensors

from vocab.vllm_plugin.patches import Patch, install_patches

_EXTRA_ARG: Final = "wordbound_rows"

_asking: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""For each ``PromptLogprobsWorker`` of the second runner, its requests that ask for rows."""


class RowsMissingError(RuntimeError):
    """The engine generated tokens and returned no rows: the plugin is not installed there."""


def rows_args() -> dict[str, Any]:
    """Return ``SamplingParams.extra_args`` for a request that wants the row of each token that it generates.

    Such a request must not ask for ``prompt_logprobs``, which travel in the same place.
    """
    return {_EXTRA_ARG: True}


def rows_of(output: RequestOutput) -> torch.Tensor:
    """Return the rows that came with an output: float32 (k, V) on the CPU, read-only, one for each generated token.

    Raises:
        RowsMissingError: There are none.
    """
    rows = [tensors.logprobs for tensors in output.prompt_logprobs or () if isinstance(tensors, LogprobsTensors)]
    if not rows:
        raise RowsMissingError(
            "the engine returned no next-token rows: wordbound's plugin is not installed in it. Call "
            "vocab.vllm_plugin.use_plugin() before an engine of your own is made. If it was, the plugin does not know "
            "this vLLM (see the engine's log at its start)"
        )
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def install() -> None:
    """Patch the client and both model runners of vLLM to return next-token rows. Harmless to repeat."""
    for patches in (_CLIENT, _FIRST_RUNNER, _SECOND_RUNNER):
        install_patches(patches, lost="This vLLM returns no next-token rows")


# The client's process.


def _update_prompt_logprobs(original: Callable[..., None], processor: Any, tensors: LogprobsTensors) -> None:
    """Collect the rows of a request that asks for no log-probabilities of its prompt."""
    if processor.num_prompt_logprobs is not None:
        original(processor, tensors)
    else:
        # Not extended in place: an output that was returned holds the list.
        processor.prompt_logprobs = [*(processor.prompt_logprobs or ()), tensors]


def _merge(original: Callable[..., None], output: Any, next_output: Any, aggregate: bool) -> None:
    """Merge an output with the next one where nobody read it in between; vLLM would lose the rows of the next."""
    original(output, next_output, aggregate)
    rows = next_output.prompt_logprobs
    if rows and isinstance(rows[0], LogprobsTensors):
        output.prompt_logprobs = [*(output.prompt_logprobs or ()), *rows] if aggregate else rows


# The workers.


def _of_first_runner(
    original: Callable[..., dict[str, Any]], runner: Any, hidden_states: torch.Tensor, num_scheduled: dict[str, int]
) -> dict[str, Any]:
    """Add the rows that requests ask for to the prompts' log-probabilities of the first model runner."""
    result = original(runner, hidden_states, num_scheduled)
    batch = runner.input_batch
    asking = [index for index, name in enumerate(batch.req_ids) if asks_for_rows(runner.requests[name].sampling_params)]
    if not asking:
        return result
    unfinished = runner.discard_request_mask.np
    has_drafts = runner.speculative_config is not None
    names, last_tokens = [], []
    for index in asking:
        request = runner.requests[batch.req_ids[index]]
        # The drawn token has been added already.
        if not unfinished[index] and not (has_drafts and len(request.output_token_ids) > 1):
            names.append(batch.req_ids[index])
            last_tokens.append(int(runner.query_start_loc.np[index + 1]) - 1)
    rows = _rows(runner.model.compute_logits, hidden_states, last_tokens)
    # The caller waits for the device where it has log-probabilities of prompts, too.
    return result | _by_request(names, rows if rows is None else rows.cpu())


def _remember(original: Callable[..., None], worker: Any, name: str, index: int, params: Any) -> None:
    """Record a request of the second model runner that asks for rows."""
    original(worker, name, index, params)
    if asks_for_rows(params):
        _asking.setdefault(worker, set()).add(name)


def _forget(original: Callable[..., None], worker: Any, name: str) -> None:
    """Forget a request that the second model runner has removed."""
    original(worker, name)
    _asking.get(worker, set()).discard(name)


def _of_second_runner(
    original: Callable[..., dict[str, Any]],
    worker: Any,
    logits_fn: Callable[[torch.Tensor], torch.Tensor],
    hidden_states: torch.Tensor,
    batch: Any,
    *args: Any,
) -> dict[str, Any]:
    """Add the rows that requests ask for to the prompts' log-probabilities of the second model runner."""
    result = original(worker, logits_fn, hidden_states, batch, *args)
    asking = _asking.get(worker)
    if not asking:
        return result
    names, last_tokens = [], []
    first_logits = batch.cu_num_logits_np
    for index, name in enumerate(batch.req_ids):
        num_logits = int(first_logits[index + 1] - first_logits[index])
        # None where a prompt is not finished, several where there are drafts.
        if name in asking and num_logits == 1:
            names.append(name)
            last_tokens.append(int(batch.query_start_loc_np[index + 1]) - 1)
    # The runner copies them to the host beside the next step.
    return result | _by_request(names, _rows(logits_fn, hidden_states, last_tokens))


def asks_for_rows(params: Any) -> bool:
    """Return whether a request's ``SamplingParams`` ask for rows; None, of a request that draws nothing, does not."""
    return bool(params is not None and params.extra_args and params.extra_args.get(_EXTRA_ARG))


def _rows(
    compute_logits: Callable[[torch.Tensor], torch.Tensor], hidden_states: torch.Tensor, last_tokens: Sequence[int]
) -> torch.Tensor | None:
    """Compute rows, float32 (rows, V) on the model's device; None if none is asked, or on a worker without logits."""
    if not last_tokens:
        return None
    index = torch.tensor(last_tokens, pin_memory=hidden_states.is_cuda).to(hidden_states.device, non_blocking=True)
    logits: torch.Tensor | None = compute_logits(hidden_states[index])
    return None if logits is None else logits.float().log_softmax(-1)


def _by_request(names: Sequence[str], rows: torch.Tensor | None) -> dict[str, LogprobsTensors]:
    """Return each request's row, by name, in vLLM's type for log-probabilities."""
    if rows is None:
        return {}
    nothing = torch.zeros(1, dtype=torch.int32, device=rows.device)
    return {
        name: LogprobsTensors(logprob_token_ids=nothing, logprobs=rows[i : i + 1], selected_token_ranks=nothing)
        for i, name in enumerate(names)
    }


_CLIENT: Final = (
    Patch(
        "vllm.v1.engine.logprobs:LogprobsProcessor._update_prompt_logprobs",
        "(self, prompt_logprobs_tensors)",
        _update_prompt_logprobs,
    ),
    Patch("vllm.outputs:RequestOutput.add", "(self, next_output, aggregate)", _merge),
)

_FIRST_RUNNER: Final = (
    Patch(
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner._get_prompt_logprobs_dict",
        "(self, hidden_states, num_scheduled_tokens)",
        _of_first_runner,
    ),
)

_SECOND_RUNNER: Final = (
    Patch(
        "vllm.v1.worker.gpu.sample.prompt_logprob:PromptLogprobsWorker.add_request",
        "(self, req_id, req_idx, sampling_params)",
        _remember,
    ),
    Patch(
        "vllm.v1.worker.gpu.sample.prompt_logprob:PromptLogprobsWorker.remove_request",
        "(self, req_id)",
        _forget,
    ),
    Patch(
        "vllm.v1.worker.gpu.sample.prompt_logprob:PromptLogprobsWorker.compute_prompt_logprobs",
        "(self, logits_fn, hidden_states, input_batch, all_token_ids, num_computed_tokens, prompt_lens)",
        _of_second_runner,
    ),
)
