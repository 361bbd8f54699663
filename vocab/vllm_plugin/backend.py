"""The vLLM plugin: teach its xgrammar backend our grammar references, and Lark.

A subclass of vLLM's ``XgrammarBackend`` replaces it. Its ``compile_grammar`` answers a reference with a matcher over
the compiled artefact, ours or xgrammar's, and a grammar in Lark with llguidance's; every other grammar goes to
xgrammar. What those of clients may cost is limited (``vocab.vllm_plugin.client_grammars``). vLLM loads the plugin in
each of its processes through the entry point group ``vllm.general_plugins`` (``vocab.vllm_plugin``).
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import llguidance
import numpy as np
import numpy.typing as npt
import torch
import vllm.v1.structured_output as structured_output
import xgrammar
from llguidance import hf as llguidance_hf
from typing_extensions import override
from vllm.logger import init_logger
from vllm.v1.structured_output.backend_guidance import GuidanceGrammar
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar, StructuredOutputOptions
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend, XgrammarGrammar

from vocab.arrays.kernels import Int32Array
from vocab.artefacts.artefact import ArtefactFolder
from vocab.artefacts.grammar import load_grammar
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.compiler.warm_up import warm_up
from vocab.decoding.ends import Ending
from vocab.decoding.retry import Retry, letter_tokens
from vocab.errors import ArtefactError
from vocab.matching.client_limits import LARK_LIMITS
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, DEFAULT_CACHE_BYTES, EngineCache
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference, parse_compiled_grammar, parse_lark
from vocab.vllm_plugin import MaskStatistics
from vocab.vllm_plugin.client_grammars import ENDED, ClientGrammar, MaskMaker, StepCost
from vocab.vllm_plugin.device import seams
from vocab.vllm_plugin.own_probabilities import OWN_PROBABILITIES
from vocab.vllm_plugin.patches import CPU_ADAPTERS, CPU_SEEDS, Patch, PatchGroup
from vocab.vllm_plugin.retrying import RETRYING

logger = init_logger("vllm.wordbound")


_BACKEND: Final = PatchGroup(
    "This vLLM cannot be held to word lists, so no replica will start",
    (
        Patch("vllm.v1.structured_output:XgrammarBackend", "(vllm_config, tokenizer, vocab_size)"),
        Patch(
            "vllm.v1.structured_output:XgrammarBackend.compile_grammar",
            "(self, request_type, grammar_spec, stop_token_ids=None)",
        ),
    ),
)
"""What ``WordboundBackend`` overrides."""

_JSON: Final = (StructuredOutputOptions.JSON, StructuredOutputOptions.JSON_OBJECT)
"""Whose masks are short; a schema's ``pattern`` is a regular expression, and may be anything."""


def _trim_reasoning(
    original: Callable[..., list[int]], manager: Any, request: Any, new_token_ids: list[int]
) -> list[int]:
    """Prepare a request's grammar for the tokens that it is about to accept.

    Charge the tokens of a model's thinking to its matcher's budget, as soon as its text may begin; refuse those of a
    client's grammar that takes too long. The first call after the masks of a step ends that step. vLLM asks only for
    requests that have a grammar, so that others cost nothing here.
    """
    structured = request.structured_output_request
    grammar = structured.grammar
    if structured.reasoning_end_token_index is not None and isinstance(grammar, WordGrammar):
        grammar.begin_after(structured.reasoning_end_token_index + 1 - request.num_prompt_tokens)
    if isinstance(manager.backend, WordboundBackend):
        manager.backend.end_step()
        if isinstance(grammar, ClientGrammar) and grammar.refuse():
            request.stop_reason = ENDED
    return original(manager, request, new_token_ids)


_THINKING: Final = PatchGroup(
    "The answer of a model that thinks first may be cut and trimmed at max_tokens",
    (
        Patch(
            "vllm.v1.structured_output:StructuredOutputManager.trim_reasoning_for_advance",
            "(self, request, new_token_ids)",
            _trim_reasoning,
        ),
    ),
)


def _fill_masks(
    original: Callable[..., npt.NDArray[np.int32] | None],
    manager: Any,
    requests: Mapping[str, Any],
    structured_output_request_ids: Sequence[str],
    scheduled_spec_decode_tokens: Mapping[str, list[int]],
) -> npt.NDArray[np.int32] | None:
    """Fill the masks of a step's requests in this thread where all have word lists, and nothing drafts or thinks.

    For more than 128 requests vLLM uses threads, which wait longer for Python's lock than a list's mask takes.
    """
    bitmask, backend = manager._grammar_bitmask, manager.backend
    if bitmask is not None and manager.reasoner_cls is None and not scheduled_spec_decode_tokens:
        grammars = [requests[name].structured_output_request.grammar for name in structured_output_request_ids]
        if grammars and all(type(grammar) is WordGrammar for grammar in grammars):
            rows: npt.NDArray[np.int32] = backend.fill_bitmasks(bitmask, grammars)
            return rows
    return original(manager, requests, structured_output_request_ids, scheduled_spec_decode_tokens)


_SERIAL_MASKS: Final = PatchGroup(
    "Masks of more than 128 requests are filled by threads, which takes longer",
    (
        Patch(
            "vllm.v1.structured_output:StructuredOutputManager.grammar_bitmask",
            "(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens)",
            _fill_masks,
        ),
    ),
)


def install() -> None:
    """Replace vLLM's xgrammar backend by ``WordboundBackend``, and install the patches. Harmless to repeat."""
    if _BACKEND.install():
        structured_output.XgrammarBackend = WordboundBackend
    for group in (_THINKING, _SERIAL_MASKS, RETRYING, CPU_ADAPTERS, CPU_SEEDS):
        group.install()
    _, is_sampler_patched, _ = [group.install() for group in OWN_PROBABILITIES]
    seams.install(is_sampler_patched)


class WordboundBackend(XgrammarBackend):
    """vLLM's xgrammar backend with word lists."""

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = os.environ.get(ARTEFACT_DIR_VARIABLE)
        max_bytes = int(os.environ.get(CACHE_BYTES_VARIABLE) or DEFAULT_CACHE_BYTES)
        facts = TokenizerFacts.from_tokenizer(self.tokenizer)
        self._lists = EngineCache(Path(folder), facts, max_bytes) if folder else None
        self._textless = facts.textless
        self._letters = letter_tokens(facts)
        self._bitmask_arrays = _BitmaskArrays()
        self._statistics = MaskStatistics.shared()
        self._step, self._client_masks = StepCost(), MaskMaker()
        # Not in a client's time: vLLM makes the backend for the replica's own start-up check.
        warm_up()

    @override
    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> StructuredOutputGrammar:
        """Compile a grammar: to a matcher where it is one of our references, with llguidance in Lark, else xgrammar.

        xgrammar's grammar of a list is read, for it was compiled elsewhere. For our matcher a stop token with a text is
        text: a search may stop at it in the middle of an answer.

        Raises:
            ArtefactError: The artefact is missing, damaged or made for another tokenizer.
            TokenBudgetError: No text of the list fits into the request's budget.
        """
        is_grammar = request_type == StructuredOutputOptions.GRAMMAR
        if is_grammar and (digest := parse_compiled_grammar(grammar_spec)) is not None:
            compiled = self._artefacts().grammar(digest, self._load_grammar)
            return XgrammarGrammar(
                vocab_size=self.vocab_size,
                matcher=xgrammar.GrammarMatcher(
                    compiled,
                    override_stop_tokens=list(stop_token_ids) if stop_token_ids else None,
                    max_rollback_tokens=self.num_speculative_tokens,
                ),
                ctx=compiled,
            )
        reference = GrammarReference.parse(grammar_spec) if is_grammar else None
        if reference is None:
            lark = parse_lark(grammar_spec) if is_grammar else None
            may_stop = stop_token_ids or {self.tokenizer.eos_token_id}
            if lark is not None:
                return self._compile_lark(lark, may_stop)
            grammar = super().compile_grammar(request_type, grammar_spec, stop_token_ids)
            is_harmless = request_type in _JSON and '"pattern' not in grammar_spec
            masks = None if is_harmless else self._client_masks
            return ClientGrammar(grammar, may_stop, self._step, masks=masks)
        textless = self._textless.intersection(stop_token_ids or ())
        matcher = Matcher.of(reference, self._artefacts().for_text(reference), textless)
        text = seams.text_of(matcher, reference, self.vllm_config)
        self._statistics.add_text(is_on_device=text is not None, num_dead=seams.num_dead())
        return WordGrammar(matcher, self._bitmask_arrays, self._statistics, self._letters, text)

    def fill_bitmasks(self, bitmask: torch.Tensor, grammars: "Sequence[WordGrammar]") -> npt.NDArray[np.int32]:
        """Fill a row of ``bitmask``, int32 (sequences, words), for each grammar; return these rows."""
        rows = self._bitmask_arrays.of(bitmask)[: len(grammars)]
        started_at = perf_counter()
        for row, grammar in zip(rows, grammars, strict=True):
            grammar.fill(row)
        self._statistics.add(perf_counter() - started_at, len(grammars))
        return rows

    def end_step(self) -> None:
        """End a step of the engine, for what clients' grammars may cost in one; harmless to repeat."""
        self._step.end()

    def _artefacts(self) -> EngineCache:
        if self._lists is None:
            raise ArtefactError(
                f"set {ARTEFACT_DIR_VARIABLE} to the folder of compiled lists in the engine's environment"
            )
        return self._lists

    @cached_property
    def _tokenizer_info(self) -> Any:
        """xgrammar's description of the tokenizer, as ``GrammarCompiler`` has it."""
        return xgrammar.TokenizerInfo.from_huggingface(self.tokenizer, vocab_size=self.vocab_size)

    def _load_grammar(self, folder: ArtefactFolder, digest: str) -> tuple[Any, int]:
        """Deserialize xgrammar's grammar of a list, and return it with its bytes.

        Those are about the bytes of its JSON: it has a copy of its automaton for each rule, and counts one.
        """
        text = load_grammar(folder, digest)
        try:
            compiled = xgrammar.CompiledGrammar.deserialize_json(text, self._tokenizer_info)
        except RuntimeError as error:
            raise ArtefactError(f"xgrammar cannot read the grammar {digest} for this engine: {error}") from None
        logger.info("loaded the grammar %s, %.1f MB", digest, len(text) / 1e6)
        return compiled, len(text)

    def _compile_lark(self, grammar: str, stop_tokens: set[int]) -> StructuredOutputGrammar:
        """Compile a grammar in llguidance's Lark.

        Raises:
            ValueError: It cannot be compiled.
        """
        matcher = llguidance.LLMatcher(
            self._llguidance_tokenizer,
            llguidance.LLMatcher.grammar_from_lark(grammar),
            log_level=0,
            limits=llguidance.LLParserLimits(**LARK_LIMITS),
        )
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        # Its report of an error would put the client's grammar and text into the log.
        made = GuidanceGrammar(matcher, self._llguidance_tokenizer, self.vocab_size, printed_error=True)
        return ClientGrammar(made, stop_tokens, self._step, has_failed=matcher.is_error)

    @cached_property
    def _llguidance_tokenizer(self) -> llguidance.LLTokenizer:
        """llguidance's tokenizer, made with the first grammar in Lark, in a second."""
        return llguidance_hf.from_tokenizer(self.tokenizer, self.vocab_size)


class _BitmaskArrays:
    """The engine's bitmask as an array over the same memory; the engine passes one tensor at every step."""

    def __init__(self) -> None:
        self._last: tuple[torch.Tensor | None, Int32Array] = None, np.zeros((0, 0), dtype=np.int32)

    def of(self, bitmask: torch.Tensor) -> Int32Array:
        """Return the array of a bitmask, cached for the tensor used last."""
        tensor, array = self._last
        if tensor is not bitmask:
            array = bitmask.numpy()
            self._last = bitmask, array
        return array


class WordGrammar(StructuredOutputGrammar):
    """A matcher with the interface of vLLM's scheduler; with ``device_text`` the device may follow its text instead."""

    def __init__(
        self,
        matcher: Matcher,
        bitmask_arrays: _BitmaskArrays,
        statistics: MaskStatistics,
        letters: npt.NDArray[np.bool_],
        device_text: seams.DeviceText | None = None,
    ) -> None:
        self.device_text = device_text
        self._matcher = matcher
        self._bitmask_arrays = bitmask_arrays
        self._statistics = statistics
        self._letters = letters
        self._retry: Retry | None = None

    def begin_retry(self, share: float, budget: int, wanted: Collection[int], *, has_ending: bool) -> Retry:
        """Have words of this text taken back from now on; arguments as of ``Retry``, the ending as of ``Ending``."""
        ending = Ending(self._matcher, budget) if has_ending else None
        self._retry = Retry(self._matcher, self._letters, share, budget, wanted, ending)
        return self._retry

    @override
    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens; those after a stop token are ignored. Return False where the list forbids one."""
        for token in tokens:
            if self._matcher.is_terminated:
                return True
            if not self._matcher.accept_token(token):
                logger.error("Request %s: token %d is not in the word list's grammar", request_id, token)
                return False
        return True

    def begin_after(self, num_tokens: int) -> None:
        """Charge the tokens of a model's thinking to the budget, as ``Matcher.begin_after``."""
        self._matcher.begin_after(num_tokens)

    @override
    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the longest prefix of the tokens that the list allows."""
        before = self._matcher.num_tokens
        accepted = 0
        while accepted < len(tokens) and self._matcher.accept_token(tokens[accepted]):
            accepted += 1
        self._matcher.rollback(self._matcher.num_tokens - before)
        return tokens[:accepted]

    @override
    def rollback(self, num_tokens: int) -> None:
        self._matcher.rollback(num_tokens)

    @override
    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Fill a row of ``bitmask``, int32 (sequences, words), on the CPU."""
        started_at = perf_counter()
        self.fill(self._bitmask_arrays.of(bitmask)[batch_index])
        self._statistics.add(perf_counter() - started_at)

    def fill(self, row: Int32Array) -> None:
        """Fill a mask, int32 (words,); after the text's end it allows everything, and nothing of it is sampled."""
        if self._matcher.is_terminated:
            row.fill(-1)
        else:
            self._matcher.fill_bitmask(row)
            if self._retry is not None:
                self._retry.restrict(row)

    @override
    def is_terminated(self) -> bool:
        return self._matcher.is_terminated

    @override
    def reset(self) -> Any:
        self._matcher.reset()
