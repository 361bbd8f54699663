"""The road of a list without an engine: from a request's body through vocabulary and node to masks and back to text."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from deployments.protocol.reader import ChatRequestReader
from deployments.replica.engine.node_lists import NodeLists
from deployments.settings.service import Settings
from deployments.vocabulary.deployment import Vocabulary
from tests.checked_lists import Rules
from tests.checker import assert_only_listed_words
from tests.deployments.front import SERVED, chat_body
from tests.vocab.toys import tokens_of
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import TokenizerFacts, load_speller
from vocab.matching.engine_cache import EngineCache
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference

WORDS = [
    "the", "a", "cat", "dog", "sat", "runs", "in front of", "well-known", "don't", "mat", "café", "is", "cat's-eye",
]  # fmt: skip
STOP = 2

CASES: list[tuple[dict[str, Any], Rules]] = [
    ({}, {}),
    ({"case": "listed", "numbers": True}, {"case": "listed", "numbers": True}),
    ({"punctuation": "basic", "layout": "lines"}, {"punctuation": "basic"}),
    ({"punctuation": "none"}, {"punctuation": "none"}),
    ({"end": "sentence", "case": "sentence"}, {"end": "sentence", "case": "sentence"}),
    ({"extra_words": ["Ana", "New York"]}, {"extra_words": ["Ana", "New York"]}),
    ({"exclude_words": ["Dog"]}, {"exclude_words": ["Dog"]}),
    ({"exclude_words": ["cat"]}, {"exclude_words": ["cat"]}),
    (
        {"end": "sentence", "numbers": True, "extra_words": ["Ana"], "exclude_words": ["dog", "mat"]},
        {"end": "sentence", "numbers": True, "extra_words": ["Ana"], "exclude_words": ["dog", "mat"]},
    ),
]


class Road:
    """All parts of the service that a list meets, in this process but for the compiler's."""

    def __init__(self, vocabulary: Any, folder: Path, facts: TokenizerFacts) -> None:
        self.vocabulary = vocabulary
        self.facts = facts
        store = ArtefactStore(folder / "engine", 2**30)
        self.lists = NodeLists(store, vocabulary.fetch)
        self.cache = EngineCache(folder / "engine", facts)
        self.requests = ChatRequestReader(SERVED)

    async def texts(self, vocab: dict[str, Any], budgets: range) -> list[str]:
        """Random texts, one for each budget, as an engine without any wishes would write them."""
        spec = self.requests.read(chat_body(vocab=vocab)).vocabulary
        resolved = await self.vocabulary.resolve(spec)
        listed = await self.lists.get(resolved)
        texts = []
        for max_tokens in budgets:
            assert max_tokens >= resolved.fewest_tokens
            reference = GrammarReference.parse(listed.grammar(max_tokens))
            assert reference is not None
            text = self._written(Matcher(self.cache.states(reference), [STOP], max_tokens), max_tokens)
            assert listed.reader.is_text(text), text
            listed.reader.coverage(text)
            texts.append(text)
        return texts

    def _written(self, matcher: Matcher, max_tokens: int) -> str:
        randomness, spelled = random.Random(max_tokens), b""
        row = np.zeros((len(self.facts) + 31) // 32, dtype=np.int32)
        for _ in range(max_tokens):
            matcher.fill_bitmask(row)
            token = randomness.choice(sorted(tokens_of(row)))
            assert matcher.accept_token(token)
            if matcher.is_terminated:
                break
            spelled += self.facts.token_bytes[token]
        return spelled.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def road(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Road]:
    folder = tmp_path_factory.mktemp("road")
    settings = Settings.load(
        {"secret_token": "k", "model_name": str(smollm2_path), "artefact_dir": str(folder / "vocabulary")}, {}
    )
    vocabulary = await Vocabulary.create(settings)
    try:
        yield Road(vocabulary, folder, load_speller(str(smollm2_path)).facts)
    finally:
        await vocabulary.close()


@pytest.mark.fault(61)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("options", "rules"), CASES, ids=[str(options)[:50] for options, _ in CASES])
async def test_whatever_the_masks_let_through_is_a_text_of_the_list(
    road: Road, options: dict[str, Any], rules: Rules
) -> None:
    vocab = {"words": WORDS, "lang": "en", "n_words": 11, **options}
    for text in await road.texts(vocab, range(5, 45)):
        assert_only_listed_words(text, "en", 11, WORDS, **rules)
