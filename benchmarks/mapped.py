"""How much memory processes share that map one artefact: `python -m benchmarks.mapped '<job as JSON>'` is one of them.

Each maps the file as an engine does, follows texts over the whole list, and says what /proc/self/smaps says of the
mapping while the others still run: Rss counts every page it uses, Pss divides those that processes share.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import memory_mib

_FIELDS: Final = {
    "size": ("Size",),
    "rss": ("Rss",),
    "pss": ("Pss",),
    "shared": ("Shared_Clean", "Shared_Dirty"),
    "private": ("Private_Clean", "Private_Dirty"),
}
"""What is reported, and the fields of smaps that it sums. Pages are dirty until the file has reached the disk."""


def read_together(job: dict[str, Any], num_processes: int, root: Path) -> list[dict[str, float]]:
    """Runs several readers of one artefact at once; for each, the MiB of its mapping, and by how much all of it grew.

    Args:
        job: ``folder`` and ``digest`` of the artefact, the path of its ``tokenizer``, ``n_words``, ``stop_token`` and
            the ``texts`` as tokens.
        num_processes: How many.
        root: Where they are started.
    """
    command = [sys.executable, "-m", "benchmarks.mapped", json.dumps(job)]
    readers = [
        subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(num_processes)
    ]
    try:
        # All are at the end of their texts before the first is asked, and stay until the last has answered.
        for reader in readers:
            if not reader.stdout or reader.stdout.readline() != "ready\n":
                raise RuntimeError("a process could not use the artefact; what it wrote is above")
        return [_ask(reader) for reader in readers]
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


def _ask(reader: "subprocess.Popen[str]") -> dict[str, float]:
    if not reader.stdin or not reader.stdout:
        raise RuntimeError("the process has no pipes")
    reader.stdin.write("\n")
    reader.stdin.flush()
    answer: dict[str, float] = json.loads(reader.stdout.readline())
    return answer


def mapping_mib(name: str) -> dict[str, float]:
    """The sizes of this process's mappings of a file, by its name."""
    kib = dict.fromkeys((field for fields in _FIELDS.values() for field in fields), 0)
    is_of_file = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        field, _, rest = line.partition(":")
        if field in kib:
            kib[field] += int(rest.split()[0]) if is_of_file else 0
        elif "-" in line.split(" ", 1)[0]:
            is_of_file = name in line
    return {name: sum(kib[field] for field in fields) / 1024 for name, fields in _FIELDS.items()}


def main() -> None:
    import numpy as np

    from vocab.artefacts.artefact import ArtefactFolder
    from vocab.automaton.frame import frame_for
    from vocab.automaton.frame_tokens import FrameTokens
    from vocab.automaton.tokenizer import load_speller
    from vocab.matching.matcher import Matcher
    from vocab.matching.states import ListStates
    from vocab.options import DEFAULT_OPTIONS

    job = json.loads(sys.argv[1])
    tokens_of_frames = FrameTokens.of(load_speller(job["tokenizer"]).facts)
    before = memory_mib()
    words = ArtefactFolder(Path(job["folder"])).load(job["digest"])
    states = ListStates(words, frame_for(words, None, DEFAULT_OPTIONS, tokens_of_frames), job["n_words"])
    row = np.zeros((words.num_tokens + 31) // 32, dtype=np.int32)
    for tokens in job["texts"]:
        matcher = Matcher(states, (job["stop_token"],))
        for token in tokens:
            matcher.fill_bitmask(row)
            if not matcher.accept_token(token):
                raise RuntimeError(f"token {token} of a listed text was refused")
    print("ready", flush=True)
    sys.stdin.readline()
    after = memory_mib()
    print(json.dumps({**mapping_mib(job["digest"]), "added": after.resident - before.resident}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
