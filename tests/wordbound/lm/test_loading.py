"""Models by name: which backend, and what is said where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

import wordbound.lm
from wordbound.lm import MockAsyncLM, load_model_by_name


def test_what_cannot_be_loaded_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="there is no backend 'sgl': choose one of 'vllm', 'transformers'"):
        load_model_by_name("model", backend="sgl")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="put its files into the model's folder"):
        load_model_by_name(str(tmp_path), backend="mock")
    monkeypatch.setitem(sys.modules, "wordbound.lm.mock_lm", None)
    with pytest.raises(ImportError, match=r"needs wordbound\.lm\.mock_lm: install wordbound\[lm\]"):
        load_model_by_name("model", backend="mock")
    with pytest.raises(AttributeError, match="has no attribute 'AsyncMlxLM'"):
        _ = wordbound.lm.AsyncMlxLM


@pytest.mark.slow
@pytest.mark.parallel
def test_a_mock_has_the_vocabulary_of_the_model_whose_name_it_has(smollm2_path: Path) -> None:
    lm = load_model_by_name(str(smollm2_path), backend="mock", llm_opts={"cache_size": 3})
    assert isinstance(lm, MockAsyncLM)
    assert lm.cache.maxsize == 3
    assert len(lm.byte_vocab) == len(lm.str_vocab) == lm.vocab_size == 49152
    assert b"".join(lm.byte_vocab[i].byte_string for i in lm.tokenizer.encode("a cat")) == b"a cat"


def test_importing_the_package_imports_no_engine() -> None:
    program = "import sys, wordbound.lm; print({'vllm', 'transformers', 'ray', 'httpx2'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", program]) == b"set()\n"
