"""Has vLLM report p, the model's own probability, for requests of ours that ask for logprobs.

vLLM masks the logits before its sampler sees them, so that its logprobs are q, renormalised over the tokens that may
come. Thin wrappers around the two places, in each of its two model runners, measure log Z while the mask is applied
and add it to the logprobs that the sampler returns: log p = log q + log Z, for the sampled token and the top tokens
alike, where minus infinity stays what it is. The sampled token's rank becomes ``vocab.matching.log_mass.pack``'s
number.

Only rows whose grammar is ours (``vocab.matching.reference.is_ours``) and that ask for logprobs are measured and
changed; all others in the batch keep vLLM's logprobs and ranks, and a step without such a row costs two look-ups.
Left alone as well: steps with drafts of speculative decoding, where rows are positions and not sequences, and the
other ``logprobs_mode``s than vLLM's default ``raw_logprobs``. Temperature is the only sampling parameter that log Z
at the row's temperature knows: penalties, biases, top-k, top-p and min-p come later.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from vllm.logger import init_logger

from vocab.matching.reference import is_ours
from vocab.vllm_plugin.mass_tensors import measure, report, take
from vocab.vllm_plugin.wrap import wrap

logger = init_logger("vllm.wordbound")

_GREEDY_BELOW: Final = 1e-5
"""vLLM's own bound: a lower temperature means that nothing is drawn."""

_asking: WeakKeyDictionary[Any, dict[str, float]] = WeakKeyDictionary()
"""For each model runner's table of requests, those that want their mass, with their temperature."""


def install() -> None:
    """Puts the wrappers in place. Doing it twice is harmless; where vLLM's insides have changed it says so, and vLLM
    reports q and ranks of its own as before, which the replica notices at start-up."""
    for install_in_runner in (_install_in_first_runner, _install_in_second_runner):
        try:
            install_in_runner()
        except (ImportError, AttributeError) as error:
            logger.warning("A model runner of this vLLM cannot be made to say what a word list costs: %s", error)


def _install_in_first_runner() -> None:
    import vllm.v1.worker.gpu_model_runner as runner
    from vllm.v1.sample.sampler import Sampler
    from vllm.v1.worker.gpu_input_batch import InputBatch

    def add_request(original: Callable[..., Any], batch: Any, request: Any) -> Any:
        index = original(batch, request)
        remember(batch, batch.req_id_to_index, request.req_id, request.sampling_params)
        return index

    def apply_mask(original: Callable[..., Any], scheduled: Any, grammar: Any, batch: Any, logits: Any) -> None:
        masked = grammar.structured_output_request_ids
        apply_and_measure(logits, batch.req_ids, masked, lambda: original(scheduled, grammar, batch, logits))

    def sample(original: Callable[..., Any], sampler: Any, logits: Any, *args: Any, **kwargs: Any) -> Any:
        return sample_and_report(sampler, logits, lambda: original(sampler, logits, *args, **kwargs))

    wrap(InputBatch, "add_request", add_request)
    wrap(runner, "apply_grammar_bitmask", apply_mask)
    wrap(Sampler, "forward", sample)


def _install_in_second_runner() -> None:
    from vllm.v1.worker.gpu.sample.sampler import Sampler
    from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker

    def add_request(original: Callable[..., Any], sampler: Any, index: int, prompt_len: int, params: Any) -> Any:
        original(sampler, index, prompt_len, params)
        requests = sampler.req_states
        remember(requests, requests.req_id_to_index, requests.index_to_req_id[index], params)

    def apply_mask(
        original: Callable[..., Any], worker: Any, logits: Any, batch: Any, masked: list[str], bitmask: Any
    ) -> None:
        apply_and_measure(logits, batch.req_ids, masked, lambda: original(worker, logits, batch, masked, bitmask))

    def sample(original: Callable[..., Any], sampler: Any, logits: Any, batch: Any) -> Any:
        return sample_and_report(sampler, logits, lambda: original(sampler, logits, batch))

    wrap(Sampler, "add_request", add_request)
    wrap(StructuredOutputsWorker, "apply_grammar_bitmask", apply_mask)
    wrap(Sampler, "__call__", sample)


def remember(runner: Any, live: Container[str], request_id: str, params: Any) -> None:
    """Notes whether a request wants its mass, and forgets those that are gone.

    Args:
        runner: Whatever lives as long as the table of requests.
        live: The requests in the table.
        request_id: The new one.
        params: Its ``SamplingParams``; None for a request that samples nothing.
    """
    asking = {known: t for known, t in _asking.get(runner, {}).items() if known in live and known != request_id}
    if params is not None and wants_mass(params):
        asking[request_id] = params.temperature if params.temperature >= _GREEDY_BELOW else 1.0
    _asking[runner] = asking


def wants_mass(params: Any) -> bool:
    """Whether a request's ``SamplingParams`` ask for logprobs, under a grammar of ours."""
    grammar = params.structured_outputs.grammar if params.structured_outputs is not None else None
    return params.logprobs is not None and isinstance(grammar, str) and is_ours(grammar)


def apply_and_measure(
    logits: torch.Tensor, request_ids: list[str], masked: Iterable[str], apply_mask: Callable[[], None]
) -> None:
    """Applies the mask to the logits, float (sequences, tokens), and measures it where that is wanted.

    Args:
        request_ids: The request of each row.
        masked: The requests that the mask concerns, in any order.
        apply_mask: vLLM's own.
    """
    temperatures = {key: t for asking in _asking.values() for key, t in asking.items()}
    wanted = temperatures.keys() & set(masked)
    rows = [row for row, request_id in enumerate(request_ids) if request_id in wanted]
    # With drafts there are more rows than requests.
    if rows and len(logits) == len(request_ids):
        measure(logits, rows, [temperatures[request_ids[row]] for row in rows], apply_mask)
    else:
        apply_mask()


def sample_and_report(sampler: Any, logits: torch.Tensor, sample: Callable[[], Any]) -> Any:
    """Samples, and has the output report p where ``apply_and_measure`` measured these logits."""
    mass = take(logits)
    output = sample()
    if mass is not None and output.logprobs_tensors is not None and sampler.logprobs_mode == "raw_logprobs":
        output.logprobs_tensors = report(mass, output.logprobs_tensors)
    return output
