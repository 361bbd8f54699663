"""Replicas that have started, one for each set of settings."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deployments.replica.world import ReplicaWorld


@pytest.fixture(scope="session")
def world_of(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ReplicaWorld]:
    """Starts a replica whose mask holds, once for each name; its engine has forgotten what it was asked."""
    started: dict[str, ReplicaWorld] = {}

    def world(name: str, model: Path = smollm2_path, **settings: Any) -> ReplicaWorld:
        if name not in started:
            started[name] = ReplicaWorld(model, tmp_path_factory.mktemp("artefacts"), **settings)
        started[name].reset()
        return started[name]

    return world


@pytest.fixture
def world(world_of: Callable[..., ReplicaWorld]) -> ReplicaWorld:
    """One with the usual settings."""
    return world_of("usual")


@pytest.fixture
def xgrammar(world_of: Callable[..., ReplicaWorld]) -> ReplicaWorld:
    """One whose engine has lists sent as grammars, so that ``max_tokens`` may cut a text inside a word."""
    return world_of("xgrammar", mask_engine="xgrammar")


@pytest.fixture
def thinker(world_of: Callable[..., ReplicaWorld]) -> ReplicaWorld:
    """One whose model thinks before it answers, and whose engine can end that."""
    return world_of("thinker", engine_kwargs={"reasoning_parser": "granite"})


@pytest.fixture
def small(world_of: Callable[..., ReplicaWorld]) -> ReplicaWorld:
    """One of few sequences and short prompts, which drops the turns that make a conversation too long."""
    limits = {"max_input_tokens": 60, "max_rows_bytes": 2**22, "max_top_logprobs": 0}
    batch = {"lines_in_flight": 4}
    return world_of("small", max_sequences=4, batch=batch, limits=limits, input_overflow="truncate")


@pytest.fixture
def mute(world_of: Callable[..., ReplicaWorld], smollm2_path: Path, tmp_path: Path) -> ReplicaWorld:
    """One whose model has no chat template."""
    folder = tmp_path / "model"
    shutil.copytree(smollm2_path, folder, ignore=shutil.ignore_patterns("*.safetensors", "chat_template*"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return world_of("mute", folder)
