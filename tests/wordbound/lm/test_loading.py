"""Models by name: which backend, and what is said where there is none."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wordbound.lm
from wordbound.lm import MockAsyncLM, load_model_by_name
from wordbound.lm.loading import BACKENDS


def test_an_unknown_backend_is_refused_with_the_ones_that_exist() -> None:
    with pytest.raises(ValueError, match="there is no backend 'sgl': choose one of 'vllm', 'transformers'"):
        load_model_by_name("model", backend="sgl")


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "mock", ("no_such_lm", "NoSuchLM", "wordbound[lm]"))
    with pytest.raises(ImportError, match=r"needs wordbound\.lm\.no_such_lm: install wordbound\[lm\]"):
        load_model_by_name("model", backend="mock")


def test_a_model_without_a_tokenizer_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="put its files into the model's folder"):
        load_model_by_name(str(tmp_path), backend="mock")


@pytest.mark.slow
@pytest.mark.parallel
def test_a_mock_has_the_vocabulary_of_the_model_whose_name_it_has(smollm2_path: Path) -> None:
    lm = load_model_by_name(str(smollm2_path), backend="mock", llm_opts={"cache_size": 3})
    assert isinstance(lm, MockAsyncLM)
    assert lm.cache.maxsize == 3
    assert len(lm.byte_vocab) == len(lm.str_vocab) == lm.vocab_size == 49152
    assert b"".join(lm.byte_vocab[i].byte_string for i in lm.tokenizer.encode("a cat")) == b"a cat"


def test_importing_the_package_imports_no_engine() -> None:
    engines = "{'vllm', 'transformers', 'ray', 'httpx'}"
    result = subprocess.run(
        [sys.executable, "-c", f"import sys, wordbound.lm; print({engines} & set(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "set()\n"


def test_what_the_package_does_not_have_is_an_attribute_error() -> None:
    lm: Any = wordbound.lm
    with pytest.raises(AttributeError, match="has no attribute 'AsyncMlxLM'"):
        _ = lm.AsyncMlxLM
