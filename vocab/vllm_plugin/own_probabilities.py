"""Have vLLM report p, the model's own probabilities before any mask: one hook in each of its two model runners.

vLLM masks the logits before its sampler sees them, so that its logprobs are q, renormalised over the allowed tokens.
What a request may ask for instead:

- The mass: with logprobs under a grammar of ours (``vocab.matching.reference.is_ours``), p takes the place of q, and
  what the mask left that of the sampled token's rank (``vocab.vllm_plugin.masked_mass``).
- With ``UNMASKED_TOP`` in its ``extra_args`` besides, the top tokens are the model's likeliest before the mask, those
  that the mask took marked; with ``REFUSED_AT`` some of them come besides vLLM's own.
- With ``rows_args``, the row of each token that it generates: the log-probability of every token, as a tensor, of the
  model's logits before masks, temperatures, penalties and biases. vLLM's own ``logprobs=-1`` makes a Python object of
  each token: 14 ms a row at 49,152 tokens, 80 ms at 262,144.

The mass is left alone in steps with drafts of speculative decoding, where rows of logits are positions and not
sequences, and with ``logprobs_mode``s other than vLLM's default ``raw_logprobs``. A step without such a request costs
some look-ups.

Rows arrive where vLLM returns the log-probabilities of prompts, and ``rows_of`` reads them. Their logits are computed a
second time, on all workers alike, where in-place changes by masks and samplers cannot reach them: the cost is one more
output layer for the rows that were asked for. A runner with drafts returns the row of the first token alone, as a step
may have several.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from vllm.outputs import RequestOutput
from vllm.v1.outputs import LogprobsTensors

from vocab.matching.log_mass import REFUSED_AT, UNMASKED_TOP
from vocab.matching.reference import is_ours
from vocab.vllm_plugin.device import seams
from vocab.vllm_plugin.masked_mass import MassAsked, measure, report, take
from vocab.vllm_plugin.patches import Patch, PatchGroup

_ROWS: Final = "wordbound_rows"
"""In the ``extra_args`` of a request that asks for rows."""

_GREEDY_BELOW: Final = 1e-5
"""vLLM's own bound: below it nothing is drawn."""


class RowsMissingError(RuntimeError):
    """The engine generated tokens and returned no rows: the plugin is not installed there."""


def rows_args() -> dict[str, Any]:
    """Return ``SamplingParams.extra_args`` for a request that wants the row of each token that it generates.

    Such a request must not ask for ``prompt_logprobs``, which travel in the same place.
    """
    return {_ROWS: True}


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


# Who asks for what.


class _Asked(NamedTuple):
    mass: MassAsked | None
    row: bool


_asking: WeakKeyDictionary[Any, dict[str, _Asked]] = WeakKeyDictionary()
"""For each model runner's table of requests, what those that ask for something ask for."""


def _remember(table: Any, live: Container[str], request_id: str, params: Any) -> None:
    """Record what a new request asks for, and forget those that are gone.

    ``table`` is an object with the lifetime of the runner's table of requests, ``live`` has those in it. ``params`` are
    ``SamplingParams``; None where the request samples nothing.
    """
    asking = {known: asked for known, asked in _asking.get(table, {}).items() if known in live and known != request_id}
    if params is not None:
        asked = _Asked(_mass_asked(params), bool((params.extra_args or {}).get(_ROWS)))
        if any(asked):
            asking[request_id] = asked
    _asking[table] = asking


def _mass_asked(params: Any) -> MassAsked | None:
    """Return what is to be measured: something with logprobs, under a grammar of ours or with the unmasked top."""
    extra = params.extra_args or {}
    has_top, refused_at = bool(extra.get(UNMASKED_TOP)), extra.get(REFUSED_AT)
    grammar = params.structured_outputs.grammar if params.structured_outputs is not None else None
    if params.logprobs is None or not (has_top or (isinstance(grammar, str) and is_ours(grammar))):
        return None
    temperature = params.temperature if params.temperature >= _GREEDY_BELOW else 1.0
    return MassAsked(temperature, params.logprobs if has_top else None, refused_at)


def _all_asking() -> dict[str, _Asked]:
    # Of all engines in this process: vLLM tells their requests apart by random parts of their ids.
    return {name: asked for asking in _asking.values() for name, asked in asking.items()}


# The mass, from the mask to the sampler.


def _apply_and_measure(
    logits: torch.Tensor, request_ids: list[str], masked: Iterable[str], apply_mask: Callable[[], None]
) -> None:
    """Apply vLLM's mask to the logits, float (sequences, tokens), and measure what it leaves where that is wanted.

    ``request_ids`` has the request of each row, ``masked`` those that the mask concerns, in any order.
    """
    asking = _all_asking()
    masked = set(masked) if asking else ()
    rows = {
        row: asked.mass
        for row, name in enumerate(request_ids)
        if name in masked and (asked := asking.get(name)) is not None and asked.mass is not None
    }
    # With drafts there are more rows than requests.
    if rows and len(logits) == len(request_ids):
        measure(logits, rows, apply_mask)
    else:
        apply_mask()


def _sample(original: Callable[..., Any], sampler: Any, logits: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Sample with vLLM's sampler, and have it report p where these logits were measured."""
    masses = take(logits)
    output = original(sampler, logits, *args, **kwargs)
    if masses and output.logprobs_tensors is not None and sampler.logprobs_mode == "raw_logprobs":
        for mass in masses:
            output.logprobs_tensors = report(mass, output.logprobs_tensors)
    return output


# Rows.


def _rows_by_request(
    compute_logits: Callable[[torch.Tensor], torch.Tensor | None],
    hidden_states: torch.Tensor,
    last_tokens: Mapping[str, int],
) -> dict[str, LogprobsTensors]:
    """Return each request's row, by name, in vLLM's type for log-probabilities; none on a worker without logits.

    ``last_tokens`` has the place of each request's last token in ``hidden_states``.
    """
    if not last_tokens:
        return {}
    places = torch.tensor(list(last_tokens.values()), pin_memory=hidden_states.is_cuda)
    logits = compute_logits(hidden_states[places.to(hidden_states.device, non_blocking=True)])
    if logits is None:
        return {}
    rows = logits.float().log_softmax(-1)
    nothing = torch.zeros(1, dtype=torch.int32, device=rows.device)
    return {
        name: LogprobsTensors(logprob_token_ids=nothing, logprobs=rows[i : i + 1], selected_token_ranks=nothing)
        for i, name in enumerate(last_tokens)
    }


# The first model runner.


def _add_request(original: Callable[..., Any], batch: Any, request: Any) -> Any:
    index = original(batch, request)
    _remember(batch, batch.req_id_to_index, request.req_id, request.sampling_params)
    return index


def _apply_mask(original: Callable[..., Any], scheduled: Any, grammar: Any, batch: Any, logits: torch.Tensor) -> None:
    masked = grammar.structured_output_request_ids
    _apply_and_measure(logits, batch.req_ids, masked, lambda: original(scheduled, grammar, batch, logits))


def _add_rows(
    original: Callable[..., dict[str, Any]], runner: Any, hidden_states: torch.Tensor, num_scheduled: dict[str, int]
) -> dict[str, Any]:
    """Add the rows that requests ask for to the log-probabilities of prompts."""
    result = original(runner, hidden_states, num_scheduled)
    asking, last_tokens = _asking.get(runner.input_batch, {}), {}
    for index, name in enumerate(runner.input_batch.req_ids if asking else ()):
        if name not in asking or not asking[name].row or runner.discard_request_mask.np[index]:
            continue
        # The drawn token has been added already.
        if runner.speculative_config is None or len(runner.requests[name].output_token_ids) <= 1:
            last_tokens[name] = int(runner.query_start_loc.np[index + 1]) - 1
    rows = _rows_by_request(runner.model.compute_logits, hidden_states, last_tokens) if last_tokens else {}
    # The caller waits for the device where it has log-probabilities of prompts, too.
    return result | {name: row._replace(logprobs=row.logprobs.cpu()) for name, row in rows.items()}


# The second one.


def _add_to_second(original: Callable[..., Any], sampler: Any, index: int, prompt_len: int, params: Any) -> None:
    original(sampler, index, prompt_len, params)
    requests = sampler.req_states
    _remember(requests, requests.req_id_to_index, requests.index_to_req_id[index], params)


def _apply_mask_in_second(
    original: Callable[..., Any], worker: Any, logits: torch.Tensor, batch: Any, masked: list[str], bitmask: Any
) -> None:
    _apply_and_measure(logits, batch.req_ids, masked, lambda: original(worker, logits, batch, masked, bitmask))


def _sample_in_second(original: Callable[..., Any], sampler: Any, logits: torch.Tensor, batch: Any) -> Any:
    """Sample as ``_sample``; mask and advance before and after it the texts that are followed on the device."""
    found = seams.rows_of(sampler, logits, batch)
    if found is None:
        return _sample(original, sampler, logits, batch)
    slots, rows = found
    masked = (batch.req_ids[row] for row in rows)
    _apply_and_measure(logits, batch.req_ids, masked, lambda: slots.mask(logits, batch.idx_mapping))
    output = _sample(original, sampler, logits, batch)
    slots.advance(batch.idx_mapping, output.sampled_token_ids, output.num_sampled)
    return output


def _add_rows_in_second(
    original: Callable[..., dict[str, Any]],
    worker: Any,
    logits_fn: Callable[[torch.Tensor], torch.Tensor],
    hidden_states: torch.Tensor,
    batch: Any,
    *args: Any,
) -> dict[str, Any]:
    """Add the rows that requests ask for to the log-probabilities of prompts; the runner copies them to the host."""
    result = original(worker, logits_fn, hidden_states, batch, *args)
    asking, last_tokens = _all_asking(), {}
    for index, name in enumerate(batch.req_ids if asking else ()):
        # None where a prompt is not finished, several where there are drafts.
        num_logits = batch.cu_num_logits_np[index + 1] - batch.cu_num_logits_np[index]
        if name in asking and asking[name].row and num_logits == 1:
            last_tokens[name] = int(batch.query_start_loc_np[index + 1]) - 1
    return result | _rows_by_request(logits_fn, hidden_states, last_tokens)


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


# Without the runners' the replica finds q and vLLM's own ranks at start-up.
_LOST: Final = "A model runner of this vLLM reports neither what a word list costs nor next-token rows"

OWN_PROBABILITIES: Final = (
    PatchGroup(
        _LOST,
        (
            Patch("vllm.v1.worker.gpu_input_batch:InputBatch.add_request", "(self, request)", _add_request),
            Patch(
                "vllm.v1.worker.gpu_model_runner:apply_grammar_bitmask",
                "(scheduler_output, grammar_output, input_batch, logits)",
                _apply_mask,
            ),
            Patch(
                "vllm.v1.sample.sampler:Sampler.forward",
                "(self, logits, sampling_metadata, predict_bonus_token=False, logprobs_mode_override=None)",
                _sample,
            ),
            Patch(
                "vllm.v1.worker.gpu_model_runner:GPUModelRunner._get_prompt_logprobs_dict",
                "(self, hidden_states, num_scheduled_tokens)",
                _add_rows,
            ),
        ),
    ),
    PatchGroup(
        _LOST,
        (
            Patch(
                "vllm.v1.worker.gpu.sample.sampler:Sampler.add_request",
                "(self, req_idx, prompt_len, sampling_params)",
                _add_to_second,
            ),
            Patch(
                "vllm.v1.worker.gpu.structured_outputs:StructuredOutputsWorker.apply_grammar_bitmask",
                "(self, logits, input_batch, grammar_req_ids, grammar_bitmask)",
                _apply_mask_in_second,
            ),
            Patch(
                "vllm.v1.worker.gpu.sample.sampler:Sampler.__call__", "(self, logits, input_batch)", _sample_in_second
            ),
            Patch(
                "vllm.v1.worker.gpu.sample.prompt_logprob:PromptLogprobsWorker.compute_prompt_logprobs",
                "(self, logits_fn, hidden_states, input_batch, all_token_ids, num_computed_tokens, prompt_lens)",
                _add_rows_in_second,
            ),
        ),
    ),
    PatchGroup(
        "This vLLM returns no next-token rows",
        (
            Patch(
                "vllm.v1.engine.logprobs:LogprobsProcessor._update_prompt_logprobs",
                "(self, prompt_logprobs_tensors)",
                _update_prompt_logprobs,
            ),
            Patch("vllm.outputs:RequestOutput.add", "(self, next_output, aggregate)", _merge),
        ),
    ),
)
