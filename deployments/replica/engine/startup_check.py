"""What a replica does before it is ready: the proof that its engine enforces word lists, and the prebuilt lists.

Without the plugin in the engine's process a list would be asked for and not kept. So a replica has its engine write
a few tokens from a list of three words, and does not start unless the text consists of them. Then it checks whether
the engine reports what the mask left of the model's probability, without which nothing can be searched or scored.
"""

import logging
from itertools import product
from typing import Any, Final
from uuid import uuid4

from ray.serve.llm.deployment import LLMServer
from vllm.sampling_params import SamplingParams, StructuredOutputsParams

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.errors import EngineError
from deployments.replica.engine import engine, ray_llm
from deployments.replica.engine.node_lists import ListedWords, NodeList, NodeLists
from deployments.settings.service import Settings
from deployments.vocabulary.client import VocabularyClient
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.speller import speller_of
from vocab.automaton.trie_builder import build_words
from vocab.compiler.warm_up import warm_up
from vocab.lists.wordlists import WordList
from vocab.matching.log_mass import unpack
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES

logger = logging.getLogger("ray.serve")

PROOF_LIST: Final = WordList("proof", ("river", "stone", "lamp"), "file")
_PROMPT: Final = "Once upon a time, there was"
_MAX_TOKENS: Final = 12


class EngineProofError(RuntimeError):
    """The engine does not enforce word lists; the service must not start."""


async def prove_enforcement(server: LLMServer, settings: Settings, listed: NodeList) -> bool:
    """Have the engine write from the three words of ``prepare_proof``, and raise unless it does.

    Return whether it also reports what the list costs.

    Raises:
        EngineProofError: It does not keep to the list; says why.
    """
    try:
        text = await engine.complete(server, _PROMPT, grammar=listed.grammar(_MAX_TOKENS), max_tokens=_MAX_TOKENS)
    except EngineError as error:
        raise EngineProofError(_explain(f"it refused one: {error}")) from None
    text = text[: listed.reader.whole_prefix_length(text)] if settings.mask_engine == "xgrammar" else text
    if not text.strip():
        raise EngineProofError(_explain("it wrote nothing"))
    if listed.reader.whole_prefix_length(text) != len(text):
        raise EngineProofError(_explain(f"it wrote {text!r}"))
    reports_cost = await reports_log_mass(ray_llm.engine_client(server), listed.grammar(_MAX_TOKENS))
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


def prepare_proof(tokenizer: Any, settings: Settings, store: ArtefactStore) -> NodeList:
    """Compile the three-word list of the start-up proof, and load machine code; needs no engine."""
    warm_up()
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
    return NodeList(ListedWords(store, words.digest), NO_CHANGES, vocabulary, settings.mask_engine)


def _explain(fault: str) -> str:
    """Return the message of an engine that does not keep to word lists, with what to do."""
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
        listed = await lists.get(resolved)
        await engine.complete(server, "Hello", grammar=listed.grammar(None), max_tokens=1)
