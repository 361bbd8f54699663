"""Where vLLM lets go of a text that the device follows, and where its second model runner masks it instead.

The life of such a request: its grammar is compiled, with a table on the device (``text_of``); vLLM's scheduler then
gets the request without a structured output, so that nothing waits for a mask, and with a mark in its reference. The
runner finds the mark where the request comes to it, also after a preemption, and gives it a slot; it masks and
advances all slots at each step (``rows_of``). A mark without a table raises: such a text may not be sampled.

All that is in one process: where the worker has another, masks are made on the CPU.
"""

import copy
import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from vllm.logger import init_logger

from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference, is_ours
from vocab.matching.states import ListStates
from vocab.vllm_plugin.device import NotMaskedError
from vocab.vllm_plugin.patches import Patch, PatchGroup
from vocab.vllm_plugin.retrying import takes_back

logger = init_logger("vllm.wordbound")

TABLE_BYTES_VARIABLE: Final = "WORDBOUND_DEVICE_BYTES"
"""Environment variable of an engine's process with the bytes that lists may take on its device; 0 for no such masks."""

DEFAULT_TABLE_BYTES: Final = 256 * 1024 * 1024
"""20,000 English words take 7.7 MB at 151,669 tokens, for each N and set of options."""

DEVICE_TYPE = "cuda"
"""Of devices on which masks are made; tests have others, where Triton interprets."""

_MARK: Final = "# on the device\n"
"""At the end of a reference; no client can write one."""


class DeviceText(NamedTuple):
    """A text with a table, which stays on the device as long as this does; the matcher is where the text begins."""

    matcher: Matcher
    table: Any


_runners = WeakKeyDictionary[Any, Any]()
"""The ``Slots`` of each model runner of this process, by its table of requests; why there are none, as text."""

_is_installed = False
_reported = set[str]()


def install(is_sampler_patched: bool) -> None:
    """Install the hooks, if those of the sampler are, in ``vocab.vllm_plugin.own_probabilities``."""
    global _is_installed
    _is_installed = is_sampler_patched and DEVICE.install()


# The engine: its scheduler, and where grammars are compiled.


def text_of(matcher: Matcher, reference: GrammarReference, config: Any) -> DeviceText | None:
    """Return a new text with its table, made here if need be; None where it is masked on the CPU.

    Args:
        matcher: Of the text, at its beginning.
        reference: What it was made from.
        config: vLLM's, of the engine.
    """
    reason = _reason_of_engine(config) or _reason_of_text(matcher, reference)
    if not reason:
        [slots] = _runners.values()
        try:
            return DeviceText(matcher, slots.tables.of(matcher.states))
        except RuntimeError as error:
            reason = str(error)
    if reason not in _reported:
        _reported.add(reason)
        logger.info("Masks are made on the CPU: %s", reason)
    return None


def num_dead() -> int:
    """Return how many masks were of dead texts, as far as that is known."""
    return sum(slots.num_dead for slots in list(_runners.values()) if not isinstance(slots, str))


def _reason_of_engine(config: Any) -> str:
    """Return why no text of an engine is masked on the device; nothing if some are."""
    runners = list(_runners.values())
    if not _is_installed:
        return "this vLLM has other seams"
    if len(runners) != 1:
        return "vLLM's second model runner, on a GPU, is not in the engine's process"
    if config.parallel_config.world_size != 1:
        return "the model is spread over several GPUs"
    if config.speculative_config is not None:
        return "the engine drafts"
    if config.structured_outputs_config.reasoning_parser:
        return "the model thinks first"
    if config.kv_transfer_config is not None and config.kv_transfer_config.kv_load_failure_policy == "recompute":
        # The scheduler drops tokens then that the device has advanced by.
        return "the engine computes again what a connector fails to load"
    return runners[0] if isinstance(runners[0], str) else ""


def _reason_of_text(matcher: Matcher, reference: GrammarReference) -> str:
    """Return why a text is not masked on the device; nothing if it is."""
    from vocab.vllm_plugin.device.kernels import MAX_READINGS, MAX_STOPS
    from vocab.vllm_plugin.device.slots import MAX_HISTORY

    if reference.controls is not None or reference.schema is not None:
        return "a text has controls, or is JSON"
    if not isinstance(matcher.states, ListStates):
        return "a list is of a language without spaces"
    [slots] = _runners.values()
    if matcher.states.words.num_tokens > slots.num_tokens:
        return "the tokenizer has more tokens than the model"
    if not 1 <= len(matcher.stop_tokens) <= MAX_STOPS:
        return f"a text has not 1 to {MAX_STOPS} stop tokens"
    if len(matcher.state) > MAX_READINGS:
        return f"a text has more than {MAX_READINGS} readings"
    is_long = reference.max_tokens is None or len(reference.seen) + reference.max_tokens > MAX_HISTORY
    if reference.no_repeat is not None and is_long:
        return f"a text may have more than {MAX_HISTORY} tokens"
    return ""


def _let_go(original: Callable[..., bool], scheduler: Any, request: Any) -> bool:
    """Take a request out of vLLM's structured outputs once its grammar is there, if the device masks it."""
    is_promoted = original(scheduler, request)
    structured = request.structured_output_request
    text = getattr(structured.grammar, "device_text", None) if is_promoted and structured is not None else None
    if text is not None and not request.resumable and not takes_back(scheduler, request):
        # Several requests may share these.
        params = copy.copy(request.sampling_params)
        params.structured_outputs = copy.copy(params.structured_outputs)
        params.structured_outputs.grammar += _MARK
        # Not one of vLLM's fields: another process would not get it, and find the mark alone.
        params.device_text = text
        request.sampling_params, request.structured_output_request = params, None
    return is_promoted


# The second model runner.


def _make_slots(logits: torch.Tensor, num_slots: int) -> Any:
    """Return the slots of a model runner with such logits, float (rows, tokens); why there are none, as text."""
    try:
        num_bytes = int(os.environ.get(TABLE_BYTES_VARIABLE) or DEFAULT_TABLE_BYTES)
        if not num_bytes:
            return f"{TABLE_BYTES_VARIABLE} is 0"
        from vocab.vllm_plugin.device.slots import Slots
        from vocab.vllm_plugin.device.tables import Tables

        # What is made in vLLM's inference mode could not be changed outside it.
        with torch.inference_mode(False):
            slots = Slots(Tables(logits.device, num_bytes), num_slots, logits.shape[1])
            slots.warm_up(logits.dtype)
    except Exception as error:
        # No Triton, no compiler, no memory: the engine goes on.
        return f"{type(error).__name__}: {error}"
    return slots


def _add_requests(original: Callable[..., None], model_runner: Any, scheduled: Any) -> None:
    """Give requests with a mark their slots, after what they have written if they were preempted.

    Raises:
        NotMaskedError: One of them has no table here.
    """
    original(model_runner, scheduled)
    requests = model_runner.req_states
    for new in scheduled.scheduled_new_reqs:
        grammar = getattr(getattr(new.sampling_params, "structured_outputs", None), "grammar", None)
        if not isinstance(grammar, str) or not is_ours(grammar) or not grammar.endswith(_MARK):
            continue
        slots, text = _runners.get(requests, ""), getattr(new.sampling_params, "device_text", None)
        if isinstance(slots, str) or text is None:
            raise NotMaskedError("vLLM's scheduler let a text go that has no table in this process")
        text.matcher.reset()
        is_dead = not all(map(text.matcher.accept_token, new.prefill_token_ids[new.prompt_len :]))
        slots.add(requests.req_id_to_index[new.req_id], text.matcher, text.table, is_dead=is_dead)


def _remove(original: Callable[..., int | None], requests: Any, req_id: str) -> int | None:
    slot = original(requests, req_id)
    slots = _runners.get(requests, "")
    if slot is not None and not isinstance(slots, str):
        slots.remove(slot)
    return slot


def rows_of(sampler: Any, logits: torch.Tensor, batch: Any) -> tuple[Any, npt.NDArray[np.intp]] | None:
    """Return a runner's slots, and the rows of a step that are masked by them; None where none is.

    Raises:
        NotMaskedError: One of them has no table, or not the slot that vLLM's table of requests has for it.
    """
    requests = sampler.req_states
    slots = _runners.get(requests)
    if slots is None:
        # In the step by which vLLM measures memory, so that it counts the slots.
        if logits.device.type == DEVICE_TYPE:
            _runners[requests] = _make_slots(logits, requests.max_num_reqs)
        return None
    rows = None if isinstance(slots, str) else slots.rows(batch.idx_mapping_np)
    if rows is None:
        return None
    name = batch.req_ids[rows[0]]
    if name not in requests.req_id_to_index:
        # A dummy step has the first slots, whoever is in them.
        return None
    if requests.req_id_to_index[name] != batch.idx_mapping_np[rows[0]]:
        raise NotMaskedError(f"the request {name} is not in the slot that its step names")
    return slots, rows


DEVICE: Final = PatchGroup(
    "Masks of lists are made on the CPU",
    (
        Patch(
            "vllm.v1.core.sched.scheduler:Scheduler._try_promote_blocked_waiting_request", "(self, request)", _let_go
        ),
        Patch("vllm.v1.worker.gpu.model_runner:GPUModelRunner.add_requests", "(self, scheduler_output)", _add_requests),
        Patch("vllm.v1.worker.gpu.states:RequestState.remove_request", "(self, req_id)", _remove),
    ),
    frozenset({"0.29"}),
)
"""Besides ``rows_of``, which is called where the sampler is patched already."""
