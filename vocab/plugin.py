"""The door into vLLM: a general plugin that lets the xgrammar backend know our grammar references.

The only module of the library that imports vLLM. It puts a subclass of vLLM's ``XgrammarBackend`` in its place, whose
``compile_grammar`` answers a reference with a matcher over the compiled artefact; every other grammar goes to
xgrammar as before. vLLM loads it in each of its processes through the entry point group ``vllm.general_plugins``.
"""

import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any, Final

import torch
import vllm.v1.structured_output as structured_output
from vllm.logger import init_logger
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar, StructuredOutputOptions
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

from vocab import cpu_kernel
from vocab.artefact import ArtefactFolder
from vocab.automaton import TokenAutomaton
from vocab.errors import ArtefactError
from vocab.masks import MaskRows
from vocab.matcher import Matcher
from vocab.reference import GrammarReference
from vocab.states import ListStates
from vocab.tokenizer import TokenizerFacts

ARTEFACT_DIR_VARIABLE: Final = "WORDBOUND_ARTEFACT_DIR"
"""Environment variable with the folder of this node's artefacts."""

MAX_AUTOMATA: Final = 32
"""Automata kept mapped; their arrays lie in the page cache, their mask rows are bounded by ``MaskRows``."""

logger = init_logger("vllm.wordbound")


def register() -> None:
    """Puts ``WordboundBackend`` in the place of vLLM's xgrammar backend. Called by vLLM; doing it twice is harmless."""
    structured_output.XgrammarBackend = WordboundBackend
    cpu_kernel.install()


class WordboundBackend(XgrammarBackend):
    """vLLM's xgrammar backend, which also knows word lists."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tokenizer_digest = TokenizerFacts.from_tokenizer(self.tokenizer).digest
        self._automata: OrderedDict[str, tuple[TokenAutomaton, MaskRows]] = OrderedDict()
        self._lock = Lock()

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> StructuredOutputGrammar:
        """A matcher where the grammar is one of our references, else what xgrammar makes of it.

        Raises:
            ArtefactError: The artefact is missing, damaged or made for another tokenizer.
            TokenBudgetError: No text of the list fits into the request's budget.
        """
        reference = GrammarReference.parse(grammar_spec) if request_type == StructuredOutputOptions.GRAMMAR else None
        if reference is None:
            return super().compile_grammar(request_type, grammar_spec, stop_token_ids)
        automaton, rows = self._automaton(reference.digest)
        return WordGrammar(
            Matcher(ListStates(automaton, rows, reference.n_words), stop_token_ids or (), reference.max_tokens)
        )

    def _automaton(self, digest: str) -> tuple[TokenAutomaton, MaskRows]:
        with self._lock:
            if digest in self._automata:
                self._automata.move_to_end(digest)
                return self._automata[digest]
        folder = os.environ.get(ARTEFACT_DIR_VARIABLE)
        if not folder:
            raise ArtefactError(
                f"set {ARTEFACT_DIR_VARIABLE} to the folder of compiled lists in the engine's environment"
            )
        automaton = ArtefactFolder(Path(folder)).load(digest)
        if automaton.tokenizer_digest != self._tokenizer_digest:
            raise ArtefactError(f"the artefact {digest} was compiled for another tokenizer than the engine's")
        logger.info("Loaded %d words of list %s (%s)", automaton.words.num_words, automaton.words.lang, digest)
        with self._lock:
            self._automata[digest] = automaton, MaskRows(automaton)
            while len(self._automata) > MAX_AUTOMATA:
                self._automata.popitem(last=False)
            return self._automata[digest]


class WordGrammar(StructuredOutputGrammar):
    """A matcher as vLLM's scheduler wants to see it."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Goes on by these tokens; those after a stop token are ignored. False where one may not come."""
        for token in tokens:
            if self._matcher.is_terminated:
                return True
            if not self._matcher.accept_token(token):
                logger.error("Request %s: token %d is not in the word list's grammar", request_id, token)
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The longest prefix of the tokens that may come."""
        before = self._matcher.num_tokens
        accepted = 0
        while accepted < len(tokens) and self._matcher.accept_token(tokens[accepted]):
            accepted += 1
        self._matcher.rollback(self._matcher.num_tokens - before)
        return tokens[:accepted]

    def rollback(self, num_tokens: int) -> None:
        self._matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Fills a row of ``bitmask``, int32 (sequences, words), on the CPU."""
        self._matcher.fill_bitmask(bitmask[batch_index].numpy())

    def is_terminated(self) -> bool:
        return self._matcher.is_terminated

    def reset(self) -> Any:
        self._matcher.reset()
