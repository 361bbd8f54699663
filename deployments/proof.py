"""The proof, at start-up, that an engine enforces word lists.

Without the plugin in the engine's process a list would be asked for and not kept. So a replica has its engine write
a few tokens in a list of three words, and does not start unless the text has these words and no other. It knows
nothing of requests.
"""

import asyncio
from typing import Final

from ray.serve.llm.deployment import LLMServer

from deployments import engine
from deployments.contract import ResolvedVocabulary
from deployments.engine import EngineError
from deployments.node_lists import NodeList
from deployments.node_words import ListedWords
from deployments.settings import Settings
from vocab.automaton import compile_automaton
from vocab.changes import NO_CHANGES
from vocab.options import ListOptions
from vocab.store import ArtefactStore
from vocab.tokenizer import load_tokenizer_facts
from vocab.wordlists import WordList

PROOF_LIST: Final = WordList("proof", ("river", "stone", "lamp"), "file")
_PROMPT: Final = "Once upon a time, there was"
_MAX_TOKENS: Final = 12


class EngineProofError(RuntimeError):
    """The engine does not enforce word lists; the service must not start."""


async def prove_enforcement(server: LLMServer, settings: Settings, store: ArtefactStore) -> None:
    """Returns if the engine wrote a text of the list.

    Raises:
        EngineProofError: It did not; says why.
    """
    listed = await asyncio.to_thread(_prepare, settings, store)
    try:
        text = await engine.complete(server, _PROMPT, grammar=listed.grammar(_MAX_TOKENS), max_tokens=_MAX_TOKENS)
    except EngineError as error:
        raise EngineProofError(_explain(f"it refused one: {error}")) from None
    text = text[: listed.reader.whole_prefix_length(text)] if settings.mask_engine == "xgrammar" else text
    if not text.strip():
        raise EngineProofError(_explain("it wrote nothing"))
    if listed.reader.whole_prefix_length(text) != len(text):
        raise EngineProofError(_explain(f"it wrote {text!r}"))


def _prepare(settings: Settings, store: ArtefactStore) -> NodeList:
    """Compiles the list as the vocabulary deployment would; runs in a thread."""
    facts = load_tokenizer_facts(settings.model_name, trust_remote_code=settings.trust_remote_code)
    automaton = compile_automaton(PROOF_LIST, ListOptions(), facts)
    store.save(automaton)
    vocabulary = ResolvedVocabulary(
        digest=automaton.digest, lang=PROOF_LIST.lang, n_words=automaton.words.num_ranks, fewest_tokens=1
    )
    return NodeList(ListedWords(store, automaton.digest), NO_CHANGES, vocabulary, settings.mask_engine)


def _explain(fault: str) -> str:
    return (
        f"the engine does not keep to word lists: asked for a text of {', '.join(PROOF_LIST.words)}, {fault}. "
        "Its process has not loaded the vLLM plugin 'wordbound': install this package in the environment of the "
        "engine on every node, and let VLLM_PLUGINS, where it is set, include wordbound"
    )
