"""Read a file in a process of its own, which has nothing to give away and ends at its limits.

It takes the file from standard input. The first line of its output is the processor time that it took, in seconds;
then comes its text, or the entries of a word list in JSON, or half a line that says why there is none, where the exit
status is ``REFUSED``. A process that a signal ended has reached a limit, or crashed.
"""

import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vocab.documents import TOO_LARGE, text_of
from vocab.errors import DocumentError

REFUSED: Final = 3
"""The exit status where the file cannot be read; Python itself ends with 1 or 2."""

_LIMITS: Final[Mapping[int, int]] = {
    resource.RLIMIT_AS: 2 * 2**30,
    # Pipes are no files: nothing is written anywhere else.
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CORE: 0,
    # Modules are imported one at a time.
    resource.RLIMIT_NOFILE: 32,
    # Neither processes nor threads. Not enforced for root.
    resource.RLIMIT_NPROC: 0,
}

_BOOTSTRAP: Final = (
    "import sys; sys.path[:0] = sys.argv[1:2]; from deployments.ingress.file_process import main; main()"
)


def command(name: str, max_cpu_s: float, max_text_bytes: int, words_of: str | None = None) -> list[str]:
    """Return the command line of a process that reads a file of this name, as text or as words of a language.

    It is isolated from the variables and the folder of the user; it finds this package where this process did.
    """
    root = str(Path(__file__).parents[2])
    limits = (str(max_cpu_s), str(max_text_bytes))
    return [sys.executable, "-IB", "-c", _BOOTSTRAP, root, name, *limits, *([] if words_of is None else [words_of])]


def main() -> None:
    """Run the file reader's process: a file on standard input; its CPU time, then text or reason, on output."""
    _, _, name, max_cpu_s, max_text_bytes, *words_of = sys.argv
    soft = max(1, round(float(max_cpu_s)))
    for kind, most in {**_LIMITS, resource.RLIMIT_CPU: soft}.items():
        resource.setrlimit(kind, (most, most + (kind == resource.RLIMIT_CPU)))
    status = 0
    try:
        # What no UTF-8 can hold is in damaged files only.
        data = sys.stdin.buffer.read()
        said = (_words_in(data, name, *words_of) if words_of else text_of(data, name)).encode("utf-8", "replace")
        if len(said) > int(max_text_bytes):
            raise DocumentError(f"it has more than {int(max_text_bytes):,} bytes of text; send a part of it")
    except (DocumentError, MemoryError) as error:
        reason = str(error) if isinstance(error, DocumentError) else TOO_LARGE
        said, status = reason.encode(), REFUSED
    used = resource.getrusage(resource.RUSAGE_SELF)
    sys.stdout.buffer.write(b"%.3f\n%b" % (used.ru_utime + used.ru_stime, said))
    sys.stdout.flush()
    sys.exit(status)


def _words_in(data: bytes, name: str, language: str) -> str:
    # openpyxl imports numpy where it is installed, and this process may make no threads.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # Only such a file needs what reads it.
    from vocab.lists.list_reader import read_list

    return json.dumps(read_list(data, name, language).as_json(), ensure_ascii=False, separators=(",", ":"))
