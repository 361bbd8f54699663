"""The process that tries clients' JSON schemas and grammars: ``python -m vocab.compiler.structure_worker``.

The first line of its input is the tokenizer (xgrammar's ``TokenizerInfo`` as JSON), each further one a job
(``vocab.compiler.jobs.CheckStructure``). Each job runs in a fork with limits of its own: what takes too long, grows or
crashes ends the fork alone, and the libraries, which take 4 s and 300 MB, are loaded once.
"""

import gc
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import psutil

from vocab.compiler.child_process import die_with_parent, give_way, own_output, resident_bytes, send
from vocab.compiler.jobs import CheckStructure, Reply, read_structure, write_reply
from vocab.errors import StructureError

MAX_CPU_S: Final = 2
"""Of one job. 500 optional members take 1 s. The engine compiles again what passes, one after the other, and the
grammars of others wait for it there."""

MAX_BYTES: Final = 2**30
"""Of one job, beside what the process had."""

NUM_STEPS: Final = 64
"""Tokens that are followed through a compiled grammar: their masks count, for the engine waits for each."""

_MAX_REASON_CHARS: Final = 100

_NO_TEXT: Final = "no finite text fits it"
_TOO_SLOW: Final = f"it takes more than {MAX_CPU_S} s of processor time to compile and to follow; make it smaller"
_TOO_LARGE: Final = "it takes too much memory to compile, or is nested too deeply; make it smaller"


def main() -> None:
    """Run the structure process: schemas and grammars on standard input, replies on standard output."""
    die_with_parent()
    give_way()
    with own_output() as output:
        # torch comes with it.
        import xgrammar

        info = xgrammar.TokenizerInfo.deserialize_json(sys.stdin.readline())
        gc.freeze()
        send(output, json.dumps({"ready": "structures"}).encode() + b"\n")
        for line in sys.stdin.buffer:
            send(output, b'{"started":true}\n')
            job = read_structure(line)
            fault = in_fork(lambda job=job: fault_of(job, info))  # type: ignore[misc]  # bound at once
            error = StructureError(fault) if fault else None
            send(output, write_reply(Reply(error=error, resident_bytes=resident_bytes())))


def fault_of(job: CheckStructure, info: Any) -> str:
    """Return why xgrammar cannot compile and follow a JSON schema or grammar; empty where it can."""
    import xgrammar

    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    try:
        compile_text = compiler.compile_json_schema if job.is_schema else compiler.compile_grammar
        matcher = xgrammar.GrammarMatcher(compile_text(job.text))
    except RuntimeError as error:
        return _TOO_LARGE if "bad_alloc" in str(error) else _reason(str(error))
    bitmask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
    for _ in range(NUM_STEPS):
        matcher.fill_next_token_bitmask(bitmask)
        allowed = np.flatnonzero(np.unpackbits(bitmask.numpy().view(np.uint8), bitorder="little"))
        if not allowed.size:
            return _NO_TEXT
        # Any will do; one in the middle is seldom the end of the text.
        if not matcher.accept_token(int(allowed[allowed.size // 2])) or matcher.is_terminated():
            break
    return ""


def in_fork(check: Callable[[], str]) -> str:
    """Run a check in a fork with limits of time and memory; return its result, or the limit that it reached."""
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            die_with_parent()
            _limit()
            os.write(target, check().encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(target)
    with os.fdopen(source, "rb") as reader:
        fault = reader.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return _TOO_SLOW
    return fault.decode() if status == 0 else _TOO_LARGE


def _limit() -> None:
    """Limit the processor time and memory of this process, for one check."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S + 1))
    # Other systems than Linux neither report it nor enforce it.
    used = getattr(psutil.Process().memory_info(), "data", None)
    if used is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (used + MAX_BYTES, used + MAX_BYTES))


def _reason(message: str) -> str:
    """Shorten xgrammar's error to one line, without time, file and line number: it may repeat the schema."""
    reason = re.sub(r"^\[[\d:]+\] \S+: ", "", message[: 4 * _MAX_REASON_CHARS])
    shown = "".join(character if character.isprintable() else " " for character in reason).strip()
    return shown if len(shown) <= _MAX_REASON_CHARS else shown[: _MAX_REASON_CHARS - 1] + "…"


if __name__ == "__main__":
    main()
