"""Programs for genlm-backend run on our package: its own tests pass, but for those of what only it has."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.wordbound.lm.genlm_tests import outcomes

GPT2: Final = "openai-community/gpt2"

NOT_ITS_INTERNALS: Final = {
    "test_sequential_preprocessing": "of a private method",
    "test_parallel_preprocessing": "of a private method, by which weights become float32; here they keep their digits",
    "test_async_error_handling": "of a private method, by which an operation is asked for that does not exist",
    "test_byte_decoder_error_handling": "of an alphabet of bytes that is handed over, which nothing here is",
    "test_unknown_byte_encoding_is_rejected": "of a stand-in whose decoder is read otherwise; test_tokens has one",
}
"""Tests that are left out, and what they are of."""

ITS_OTHER_TOKENIZERS: Final = (
    "test_llama3",
    "test_codellama",
    "test_gemma",
    "test_phi",
    "test_mistral",
    "test_deepseek_r1_unsloth",
)
"""Tests that are left out, of models which are not published where tests fetch from; test_tokens has others."""


def assert_all_pass(found: Mapping[str, str], num_tests: int) -> None:
    """All did pass, or need a GPU that is not here."""
    others = {test: outcome for test, outcome in found.items() if outcome != "passed"}
    failed = {test: outcome for test, outcome in others.items() if "CUDA" not in outcome or "failed" in outcome}
    assert not failed, "\n".join(f"{test}: {outcome}" for test, outcome in failed.items())
    assert len(found) == num_tests


def test_of_tokens_all_pass(tmp_path: Path) -> None:
    assert_all_pass(outcomes("test_token.py", tmp_path), 22)


def test_of_caches_all_pass(tmp_path: Path) -> None:
    assert_all_pass(outcomes("test_cache.py", tmp_path), 7)


def test_of_tries_all_pass_but_those_of_private_methods(tmp_path: Path, smollm2_path: Path) -> None:
    left_out = set(NOT_ITS_INTERNALS)
    if importlib.util.find_spec("graphviz") is None:
        left_out.add("test_visualize")
    found = outcomes("test_trie.py", tmp_path, {GPT2: str(smollm2_path)}, sorted(left_out))
    assert_all_pass(found, 16 - ("test_visualize" in left_out))


def test_of_tokens_with_equal_bytes_all_pass(tmp_path: Path, gemma_tokenizer_path: Path) -> None:
    found = outcomes("test_duplicates.py", tmp_path, {"google/gemma-2b": str(gemma_tokenizer_path)})
    assert_all_pass(found, 5)


def test_of_vocabularies_all_pass_of_tokenizers_that_are_here(tmp_path: Path, smollm2_path: Path) -> None:
    left_out = [*NOT_ITS_INTERNALS, *ITS_OTHER_TOKENIZERS]
    assert_all_pass(outcomes("test_vocabulary.py", tmp_path, {GPT2: str(smollm2_path)}, left_out), 3)
