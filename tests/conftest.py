"""Fixtures of all tests: the demo's model and a large tokenizer, fetched once into the user's cache."""

from pathlib import Path

import pytest

from deployments.demo import model as demo_model


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """Folder of SmolLM2-135M-Instruct: 49,152 tokens, chat template."""
    return demo_model.smollm2_path()


@pytest.fixture(scope="session")
def gemma_tokenizer_path() -> Path:
    """Folder of Gemma 3's tokenizer: 262,144 tokens."""
    return demo_model.gemma_tokenizer_path()
