"""Programs for genlm-backend run on our package: its own tests pass, but for those of what only it has.

They are fetched from the package index, kept in the user's cache, and run in a process that finds our modules by its
names; nothing of them is in the repository.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from deployments.settings.service import cache_dir
from tests.pages import ROOT
from tests.tiny_adapters import byte_tokenizer, merged, write_adapter, write_model

REQUIREMENT: Final = "genlm-backend==0.3.1"
ARCHIVE: Final = "genlm_backend-0.3.1.tar.gz"
SHA256: Final = "6d114a8a2a87ea0b874dfe08dab431ec827625e1bb47ea6377e1a673f0f90a50"
GPT2: Final = "openai-community/gpt2"
LEFT_OUT: Final = (
    # Of private methods. By the second weights become float32; here they keep their digits.
    "test_trie.py::test_sequential_preprocessing",
    "test_trie.py::test_parallel_preprocessing",
    "test_trie.py::test_async_error_handling",
    # Of an alphabet of bytes that is handed over, which nothing here is.
    "test_vocabulary.py::test_byte_decoder_error_handling",
    # Of a stand-in whose decoder is read otherwise here; test_tokens has a tokenizer of that kind.
    "test_vocabulary.py::test_unknown_byte_encoding_is_rejected",
    # Their models are not published where tests fetch from, and test_tokens has their kinds.
    *(f"test_vocabulary.py::test_{name}" for name in ("llama3", "codellama", "gemma", "phi", "mistral")),
    "test_vocabulary.py::test_deepseek_r1_unsloth",
    *(["test_trie.py::test_visualize"] if importlib.util.find_spec("graphviz") is None else []),
)


def outcomes(
    files: Mapping[str, Mapping[str, str]], folder: Path, left_out: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Run files of the tests in one process.

    Args:
        files: By name, such as ``test_token.py``: by text of the file, what stands in its place.
        folder: An empty one, for the files.
        left_out: Tests that are not run, ``test_token.py::test_token_ne``.

    Returns:
        By file and in any order, ``passed``, ``skipped: …`` or ``failed: …`` for each test.
    """
    with tarfile.open(_archive()) as archive:
        for name, replaced in {"conftest.py": {}, **files}.items():
            member = archive.extractfile(f"{ARCHIVE.removesuffix('.tar.gz')}/tests/{name}")
            assert member is not None
            text = member.read().decode()
            for old, new in replaced.items():
                assert old in text, f"{name} has no {old!r}"
                text = text.replace(old, new)
            (folder / name).write_text(text)
    # Of its own, so that no other configuration is found above it.
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.wordbound.lm.genlm_alias", "--junitxml=report.xml"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"--deselect={test}" for test in left_out), *files],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # 1: some failed.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, list[str]] = {name: [] for name in files}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):  # noqa: S314
        # A file that cannot be collected has no name of a class, and is a failure of its own.
        told = [f"{part.tag}: {part.attrib.get('message')}\n{part.text}" for part in case]
        found[f"{case.attrib['classname'] or case.attrib['name']}.py"].append(told[0] if told else "passed")
    return found


def _archive() -> Path:
    """Return the source distribution, fetched if it is not there: 4 MB, and what pip builds to read its metadata."""
    file = cache_dir() / "models" / ARCHIVE
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        # In the same file system, so that the rename at the end is atomic.
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{ARCHIVE}-") as folder:
            options = ["--no-deps", "--quiet", "--no-binary", "genlm-backend", "--dest", folder, REQUIREMENT]
            subprocess.run([sys.executable, "-m", "pip", "download", *options], check=True)
            made = Path(folder) / ARCHIVE
            assert hashlib.sha256(made.read_bytes()).hexdigest() == SHA256
            made.replace(file)
    return file


def assert_all_pass(found: Sequence[str], num_tests: int) -> None:
    """So many did pass, and all others need a GPU that is not here."""
    others = [outcome for outcome in found if outcome != "passed"]
    assert all(outcome.startswith("skipped") and "CUDA" in outcome for outcome in others), "\n".join(others)
    assert len(found) - len(others) >= num_tests


def test_of_tokens_caches_tries_and_vocabularies_all_pass_but_those_of_private_methods(
    tmp_path: Path, smollm2_path: Path, gemma_tokenizer_path: Path
) -> None:
    # The demo model's tokenizer has no token for bytes that are rare, and theirs are of any text.
    byte_tokenizer().save_pretrained(tmp_path / "bytes")
    files: dict[str, tuple[int, dict[str, str]]] = {
        "test_token.py": (20, {}),
        "test_cache.py": (2, {}),
        "test_trie.py": (11, {GPT2: str(smollm2_path)}),
        "test_duplicates.py": (5, {"google/gemma-2b": str(gemma_tokenizer_path)}),
        "test_vocabulary.py": (3, {GPT2: str(tmp_path / "bytes")}),
    }
    found = outcomes({name: replaced for name, (_, replaced) in files.items()}, tmp_path, LEFT_OUT)
    for name, (num_tests, _) in files.items():
        assert_all_pass(found[name], num_tests)


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
    of_model = {"HuggingFaceTB/SmolLM-135M": str(model)}
    replaced = of_model | {"vxef/smol_lora_toy": str(adapter)}
    on_cpu = {"vxef/smol_merged_toy": str(tmp_path / "merged"), "@cuda_only\n": ""}
    files = {"conftest.py": of_model, "test_hf_lora.py": replaced | on_cpu, "test_lora.py": replaced}
    (folder := tmp_path / "genlm").mkdir()
    found = outcomes(files, folder)
    assert_all_pass(found["test_hf_lora.py"], 11)
    # Their vLLM wants a GPU; test_vllm_adapters has what they test.
    assert_all_pass(found["test_lora.py"], 1)
