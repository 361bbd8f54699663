"""Engines that tests start for themselves, each in a program that is run to its end, and short lists for them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import load_word_list
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.vllm_plugin import PLUGIN_VARIABLE

ENVIRONMENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    # As the demo's engine: two small functions of the sampler would be compiled for 8 s, and again for other shapes.
    "TORCH_COMPILE_DISABLE": "1",
}

NUM_SHORT: Final = 6000
"""Words of a list that is compiled anew, of the 300,000 that a language has: the first ones are the same in both."""


def short_lists(folder: Path, *langs: str) -> Path:
    """Write the first words of built-in lists as files of the same names, for ``wordlist_dir``."""
    folder.mkdir()
    for lang in langs:
        words = load_word_list(lang, None).words[:NUM_SHORT]
        (folder / f"{lang}.txt").write_text("\n".join(words), encoding="utf-8")
    return folder


def save_short_list(folder: Path, speller: Speller) -> CompiledList:
    """Compile the first words of the English list into a folder of artefacts."""
    whole = load_word_list("en", None)
    words = build_words(whole.up_to(NUM_SHORT), speller, has_capitals=whole.has_capitals)
    ArtefactFolder(folder).save(words)
    return words


def run_program(module: str, *arguments: str, log: Path, artefacts: Path | None = None, timeout_s: float = 600) -> None:
    """Runs ``python -m module``; its engine finds the lists of a folder. A failure shows the end of the log."""
    lists = {ARTEFACT_DIR_VARIABLE: str(artefacts), PLUGIN_VARIABLE: "1"} if artefacts is not None else {}
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            # One process, where vLLM would start two others, which import all of it again.
            env=os.environ | ENVIRONMENT | lists | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-3000:]
