"""Engines that tests start for themselves, each in a program that is run to its end."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE

ENVIRONMENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    # As the demo's engine: two small functions of the sampler would be compiled for 8 s, and again for other shapes.
    "TORCH_COMPILE_DISABLE": "1",
}


def run_program(module: str, *arguments: str, log: Path, artefacts: Path | None = None, timeout_s: float = 600) -> None:
    """Runs ``python -m module``; its engine finds the lists of a folder. A failure shows the end of the log."""
    lists = {ARTEFACT_DIR_VARIABLE: str(artefacts)} if artefacts is not None else {}
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=os.environ | ENVIRONMENT | lists,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-3000:]
