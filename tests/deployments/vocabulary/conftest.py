from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deployments.vocabulary import deployment
from tests.deployments.vocabulary.world import SMALL, Lists
from vocab.compiler import worker
from vocab.lists.wordlists import WordList


@pytest.fixture
def long_list(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The words of a built-in list, Spanish, that is longer than the small artefact."""
    words = ("the", "cat", "dog", "a", "Mouse", "bird", "fish")
    listed = WordList("es", words, "cleaned")
    monkeypatch.setattr(worker, "load_word_list", lambda name, folder, **choice: listed)
    for module in (deployment, worker):
        monkeypatch.setattr(module, "FIRST_WORDS", SMALL)
    return words


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Lists]:
    world = Lists(tmp_path)
    yield world
    for compiler in world.compilers:
        compiler.may_go_on.set()
