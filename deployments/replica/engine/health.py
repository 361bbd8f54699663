"""What a replica does before it is ready, and how it ends when its engine is of no more use.

*The start.* Without the plugin in the engine's process a list would be asked for and not kept. So a replica has its
engine write a few tokens from a list of three words, and does not start unless the text consists of them. Then it
checks whether the engine reports what the mask left of the model's probability, without which nothing can be searched
or scored, and fetches the prebuilt lists.

*The end.* Serve finds a process that ended within a second, and one that says that it is unwell after three periods of
its health checks; meanwhile such a replica looks idle and draws requests. So it ends, and Serve starts another.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NoReturn
from uuid import uuid4

import psutil
from ray.serve.llm.deployment import LLMServer
from vllm.sampling_params import SamplingParams, StructuredOutputsParams

from deployments import ray_private
from deployments.contract import UNLISTED_TEXT, ResolvedVocabulary, RowsItem, VocabularySpec
from deployments.errors import ApiError, EngineError
from deployments.replica.engine import engine
from deployments.replica.engine.node_lists import ListedWords, NodeList, NodeLists
from deployments.settings.service import Settings
from deployments.vocabulary.client import VocabularyClient
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import speller_of
from vocab.automaton.trie_builder import build_words
from vocab.compiler.warm_up import warm_up
from vocab.lists.wordlists import WordList
from vocab.matching.log_mass import unpack
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES

logger = logging.getLogger("ray.serve")

_LOOK_S: Final = 0.1

OUT_OF_ROUTING_S: Final = 10.0
"""An engine with requests that makes no step for so long gets no others until it goes on, or is replaced."""

_LAST_ANSWERS_S: Final = 3.0
"""For requests under way, which fail by themselves, and lines that did not begin, which are to say so."""

_MAX_UNLISTED: Final = 5
"""Texts in a row that are of no list, after which an engine is taken for one that does not mask."""


def end_process() -> NoReturn:
    """End this process at once, after its children: an engine that no longer listens is among them."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


@dataclass
class EngineWatch:
    """Watch an engine until it is dead, or has stood still while it had requests.

    Requests that come and go do not hide that it stands still, nor does one that waits while others are answered look
    like it: what counts is the engine's steps. Only the time with requests counts, so that an idle engine may stay.

    Attributes:
        is_dead: Whether its process has ended, or it no longer masks.
        num_steps: Steps that read a prompt or wrote a token, since any time.
        num_requests: Those that the engine has; 0 where its steps are not counted.
        stall_s: It may have requests and make no step for so long.
        num_under_way: Requests that have not been answered.
        end: Called once at the end.
    """

    is_dead: Callable[[], bool]
    num_steps: Callable[[], int]
    num_requests: Callable[[], int]
    stall_s: float
    num_under_way: Callable[[], int]
    end: Callable[[], object] = end_process
    _num_stalled: int = field(default=0, init=False)

    @property
    def is_stalled(self) -> bool:
        """Whether the engine has had requests and made no step for a while; it may go on."""
        return self._num_stalled * _LOOK_S > OUT_OF_ROUTING_S

    async def run(self) -> None:
        """Watch until the engine is dead or stalled, then call ``end``; let last answers out after a death."""
        # Looks and not seconds: of the time in which this process did not look, it cannot say anything.
        last_step = self.num_steps()
        while not self.is_dead():
            await asyncio.sleep(_LOOK_S)
            step = self.num_steps()
            self._num_stalled = self._num_stalled + bool(self.num_requests()) if step == last_step else 0
            last_step = step
            if self._num_stalled * _LOOK_S > self.stall_s:
                logger.error(
                    "the engine has made no step for %g s although it has %d requests, and so this replica ends",
                    self.stall_s,
                    self.num_requests(),
                )
                self.end()
                return
        logger.error("the engine has died, or does not mask: this replica ends")
        for _ in range(round(_LAST_ANSWERS_S / _LOOK_S)):
            await asyncio.sleep(_LOOK_S)
            if not self.num_under_way():
                break
        self.end()


class UnlistedAnswers:
    """Counts answers in a row whose texts were not of their lists, which no engine writes that masks tokens."""

    def __init__(self) -> None:
        self._num_in_a_row = 0

    @property
    def are_too_many(self) -> bool:
        """Whether the engine no longer masks. One text in between that is of its list says that it does."""
        return self._num_in_a_row >= _MAX_UNLISTED

    def note_answer(self, last: RowsItem | None) -> None:
        """Note an answer with a list by its last item: one more in a row whose text was not of its list, or none."""
        if not isinstance(last, ApiError):
            self._num_in_a_row = 0
        elif last.code == UNLISTED_TEXT:
            self._num_in_a_row += 1
            if self._num_in_a_row == _MAX_UNLISTED:
                logger.error("%d texts in a row were not of their lists: the engine does not mask", _MAX_UNLISTED)


PROOF_LIST: Final = WordList("proof", ("river", "stone", "lamp"), "file")
_PROMPT: Final = "Once upon a time, there was"
_MAX_TOKENS: Final = 12


class EngineProofError(RuntimeError):
    """The engine does not enforce word lists; the service must not start."""


async def prove_enforcement(server: LLMServer, settings: Settings, proof: NodeList) -> bool:
    """Have the engine write from the three words of ``PROOF_LIST``, and raise unless it does.

    Return whether it also reports what the list costs.

    Raises:
        EngineProofError: It does not keep to the list; says why.
    """
    try:
        text = await engine.complete(server, _PROMPT, grammar=proof.grammar(_MAX_TOKENS), max_tokens=_MAX_TOKENS)
    except EngineError as error:
        raise EngineProofError(_explain(f"it refused one: {error}")) from None
    text = text[: proof.reader.whole_prefix_length(text)] if settings.mask_engine == "xgrammar" else text
    if not text.strip():
        raise EngineProofError(_explain("it wrote nothing"))
    if proof.reader.whole_prefix_length(text) != len(text):
        raise EngineProofError(_explain(f"it wrote {text!r}"))
    reports_cost = await reports_log_mass(ray_private.engine_client(server), proof.grammar(_MAX_TOKENS))
    if not reports_cost:
        logger.warning(
            "the engine does not say what a word list costs, so with a vocabulary nothing can be searched or scored: "
            "its vLLM is not one that the plugin knows, or logprobs_mode is not raw_logprobs"
        )
    return reports_cost


async def reports_log_mass(client: Any, grammar: str) -> bool:
    """Return whether the engine reports p (not q) and the mass that the mask left."""
    params = SamplingParams(
        temperature=0.0, max_tokens=1, logprobs=0, structured_outputs=StructuredOutputsParams(grammar=grammar)
    )
    try:
        async for answer in client.generate(_PROMPT, params, f"proof-{uuid4().hex}", reasoning_ended=True):
            [first] = answer.outputs[0].logprobs[0].values()
            unpack(first.rank)
            return True
    except Exception as error:
        logger.warning("asked for the cost of a word list, the engine failed: %s", error)
    return False


def prepare_proof(tokenizer: Any, settings: Settings, store: ArtefactStore) -> NodeList | None:
    """Load machine code, and compile the three-word list of the start-up proof; needs no engine.

    Return None where xgrammar makes the masks: its grammars are compiled elsewhere (``fetch_proof``).
    """
    warm_up()
    if settings.mask_engine == "xgrammar":
        return None
    speller = speller_of(tokenizer)
    words = build_words(PROOF_LIST, speller)
    store.save(words)
    vocabulary = ResolvedVocabulary(
        digest=words.digest,
        lang=PROOF_LIST.lang,
        n_words=words.listed.num_ranks,
        fewest_tokens=1,
        # A pair that is still open when the tokens run out would leave nothing of the text.
        options=ListOptions(punctuation="full"),
    )
    return NodeList(ListedWords(store, words.digest), NO_CHANGES, vocabulary)


async def fetch_proof(vocabularies: VocabularyClient, lists: NodeLists) -> NodeList:
    """Have the list of ``prepare_proof`` compiled to a grammar by the vocabulary deployment, and fetch it."""
    spec = VocabularySpec(words=PROOF_LIST.words, punctuation="full", end="word")
    return await lists.get(await vocabularies.resolve(spec))


def _explain(fault: str) -> str:
    return (
        f"the engine does not keep to word lists: asked for a text of {', '.join(PROOF_LIST.words)}, {fault}. "
        "Its process has not loaded the vLLM plugin 'wordbound': install this package in the environment of the "
        "engine on every node, and let VLLM_PLUGINS, where it is set, include wordbound"
    )


def check_context(settings: Settings, context_length: int) -> None:
    """Refuse a service whose longest prompt and longest answer do not fit the context together.

    vLLM would shorten such an answer without the matcher, which counts the tokens left, seeing it.

    Raises:
        ValueError: They do not fit.
    """
    limits = settings.limits
    if limits.max_input_tokens + limits.max_new_tokens > context_length:
        raise ValueError(
            f"MAX_INPUT_TOKENS ({limits.max_input_tokens}) and the largest of ALLOWED_MAX_NEW_TOKENS "
            f"({limits.max_new_tokens}) exceed the context of {settings.model_id}, {context_length} tokens, "
            "together: lower one of them, or raise engine_kwargs.max_model_len"
        )


async def bring_prebuilt_lists(
    server: LLMServer, settings: Settings, vocabularies: VocabularyClient, lists: NodeLists
) -> None:
    """Fetch the prebuilt lists to this node and into the engine, so that the first request finds them there."""
    for lang, n_words in product(settings.prebuild_langs, settings.prebuilt_counts):
        resolved = await vocabularies.resolve(VocabularySpec(lang=lang, n_words=n_words))
        node_list = await lists.get(resolved)
        await engine.complete(server, "Hello", grammar=node_list.grammar(None), max_tokens=1)
