"""Programs for genlm-backend run on our package: its own tests pass, but for those of what only it has."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.tiny_adapters import byte_tokenizer, merged, write_adapter, write_model
from tests.wordbound.lm.genlm_tests import outcomes

GPT2: Final = "openai-community/gpt2"

ITS_INTERNALS: Final = (
    # Of private methods. By the second weights become float32; here they keep their digits.
    "test_trie.py::test_sequential_preprocessing",
    "test_trie.py::test_parallel_preprocessing",
    "test_trie.py::test_async_error_handling",
    # Of an alphabet of bytes that is handed over, which nothing here is.
    "test_vocabulary.py::test_byte_decoder_error_handling",
    # Of a stand-in whose decoder is read otherwise here; test_tokens has a tokenizer of that kind.
    "test_vocabulary.py::test_unknown_byte_encoding_is_rejected",
)
"""Tests that are left out, and what they are of."""

OF_OTHER_TOKENIZERS: Final = tuple(
    f"test_vocabulary.py::test_{name}"
    for name in ("llama3", "codellama", "gemma", "phi", "mistral", "deepseek_r1_unsloth")
)
"""Tests that are left out: their models are not published where tests fetch from, and test_tokens has their kinds."""


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path, gemma_tokenizer_path: Path
) -> dict[str, dict[str, str]]:
    left_out = [*ITS_INTERNALS, *OF_OTHER_TOKENIZERS]
    if importlib.util.find_spec("graphviz") is None:
        left_out.append("test_trie.py::test_visualize")
    byte_level = tmp_path_factory.mktemp("byte_level")
    # The demo model's tokenizer has no token for bytes that are rare, and theirs are of any text.
    byte_tokenizer().save_pretrained(byte_level)
    files = {
        "test_token.py": {},
        "test_cache.py": {},
        "test_trie.py": {GPT2: str(smollm2_path)},
        "test_duplicates.py": {"google/gemma-2b": str(gemma_tokenizer_path)},
        "test_vocabulary.py": {GPT2: str(byte_level)},
    }
    return outcomes(files, tmp_path_factory.mktemp("genlm"), left_out)


def assert_all_pass(found: Mapping[str, str], num_tests: int) -> None:
    """So many did pass, and all others need a GPU that is not here."""
    failed = {test: outcome for test, outcome in found.items() if outcome.startswith("failed")}
    assert not failed, "\n".join(f"{test}: {outcome}" for test, outcome in failed.items())
    passed = [test for test, outcome in found.items() if outcome == "passed"]
    skipped = {test: outcome for test, outcome in found.items() if outcome.startswith("skipped")}
    assert all("CUDA" in reason for reason in skipped.values()), skipped
    assert len(passed) >= num_tests


def test_of_tokens_all_pass(found: dict[str, dict[str, str]]) -> None:
    assert_all_pass(found["test_token.py"], 20)


def test_of_caches_all_pass_on_a_cpu(found: dict[str, dict[str, str]]) -> None:
    assert_all_pass(found["test_cache.py"], 2)


def test_of_tries_all_pass_but_those_of_private_methods(found: dict[str, dict[str, str]]) -> None:
    assert_all_pass(found["test_trie.py"], 11)


def test_of_tokens_with_equal_bytes_all_pass(found: dict[str, dict[str, str]]) -> None:
    assert_all_pass(found["test_duplicates.py"], 5)


def test_of_vocabularies_all_pass_of_tokenizers_that_are_here(found: dict[str, dict[str, str]]) -> None:
    assert_all_pass(found["test_vocabulary.py"], 3)


@pytest.mark.slow
@pytest.mark.parallel
def test_of_models_all_pass_within_a_ten_thousandth(tmp_path: Path, smollm2_path: Path) -> None:
    # They ask for equal bits, of batches that are padded as theirs are.
    replaced = {GPT2: str(smollm2_path), "max_rel_err == 0": "max_rel_err < 1e-4"}
    assert_all_pass(outcomes({"test_hf_llm.py": replaced}, tmp_path)["test_hf_llm.py"], 16)


@pytest.mark.slow
@pytest.mark.parallel
def test_of_adapters_all_pass_on_a_cpu(tmp_path: Path) -> None:
    model = write_model(None, tmp_path / "model")
    adapter = write_adapter(model, tmp_path / "adapter")
    merged(model, adapter).save_pretrained(tmp_path / "merged")
    byte_tokenizer().save_pretrained(tmp_path / "merged")
    # Models and adapters of hubs, for which these stand; and marks of tests that need no GPU here.
    replaced = {
        "HuggingFaceTB/SmolLM-135M": str(model),
        "vxef/smol_lora_toy": str(adapter),
    }
    on_cpu = {"vxef/smol_merged_toy": str(tmp_path / "merged"), "@cuda_only\n": ""}
    files = {
        "conftest.py": {"HuggingFaceTB/SmolLM-135M": str(model)},
        "test_hf_lora.py": {**replaced, **on_cpu},
        "test_lora.py": replaced,
    }
    (folder := tmp_path / "genlm").mkdir()
    found = outcomes(files, folder)
    assert_all_pass(found["test_hf_lora.py"], 11)
    # Their vLLM wants a GPU; test_vllm_adapters has what they test.
    assert_all_pass(found["test_lora.py"], 1)
