"""The compile process: ``python -m vocab.compiler.worker``, jobs and replies as JSON lines on its standard streams.

It reports that it is ready and for which tokenizer, then for each job that it started, and the reply
(``vocab.compiler.jobs``). It ends with its input and with its parent. The parent watches deadlines and memory: this
process may be killed at any time, and leaves at most a temporary file.

The tokenizer is stored as a file, so that a process needs neither the model's folder nor the libraries that read it.
"""

import argparse
import ctypes
import gc
import json
import logging
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from vocab.arrays.tensors import Array, read_tensors, write_tensors
from vocab.artefacts.shared_store import SharedStore
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.speller import Speller, byte_speller, load_speller
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.compiler.child_process import EXIT_S, die_with_parent, give_way, own_output, resident_bytes, send
from vocab.compiler.jobs import ChangeList, CompileList, Job, read_job, write_reply
from vocab.compiler.list_compiler import ListCompiler
from vocab.compiler.warm_up import warm_up
from vocab.errors import ArtefactError

SCATTERED_BYTES: Final = 2**26
"""What jobs may leave before it is given back, which takes 10 ms and more. A large list leaves 100 to 200 MB."""


def main(arguments: Sequence[str]) -> None:
    """Run the compile process: jobs on standard input, replies on standard output."""
    options = _parser().parse_args(arguments)
    die_with_parent()
    give_way()
    logging.basicConfig(level=logging.INFO, format="wordbound compiler: %(message)s")
    shared = SharedStore(options.shared_url, options.shared_bytes) if options.shared_url else None
    store = ArtefactStore(options.folder, options.max_bytes, shared)
    speller = _load_tokenizer(options.tokenizer, store)
    if speller is None:
        _store_and_start_again(options, store)
    else:
        with own_output() as output:
            compiler = ListCompiler(speller, store, options.wordlist_dir)
            prepare()
            # A job makes millions of objects and no circles of them: looking for circles takes a third of its time.
            gc.disable()
            send(output, json.dumps({"ready": speller.digest}).encode() + b"\n")
            serve(_jobs_until_eof(sys.stdin.buffer), compiler, store, lambda line: send(output, line))
    # Threads that wait for a shared store must not keep the process alive.
    os._exit(0)


def serve(jobs: Iterable[Job], compiler: ListCompiler, store: ArtefactStore, send: Callable[[bytes], None]) -> None:
    """Run jobs in order and reply to each; share new artefacts and free memory after each reply."""
    kept_bytes = resident_bytes()
    for job in jobs:
        send(b'{"started":true}\n')
        reply = compiler.run(job)
        send(write_reply(replace(reply, resident_bytes=resident_bytes())))
        store.share()
        gc.collect()
        if resident_bytes() > kept_bytes + SCATTERED_BYTES:
            give_memory_back()
            kept_bytes = resident_bytes()


def prepare() -> None:
    """Load or compile the machine code that jobs run, by running jobs on a tiny list."""
    warm_up()
    with tempfile.TemporaryDirectory(prefix="wordbound-") as folder:
        compiler = ListCompiler(byte_speller(), ArtefactStore(Path(folder), 10**6))
        base = compiler.run(CompileList("en", ("the", "cat"))).compiled
        if base is not None:
            compiler.run(ChangeList(base.digest, exclude_words=("cat",)))


def give_memory_back() -> None:
    """Return freed memory to the system, which glibc keeps where it is scattered: the next job would come on top."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the compile process's command line."""
    parser = argparse.ArgumentParser(prog="python -m vocab.compiler.worker", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the node's artefacts")
    parser.add_argument("--max-bytes", type=int, required=True, help="how many of them")
    parser.add_argument("--tokenizer", help="digest of a tokenizer that an earlier worker stored in the folder")
    parser.add_argument("--model", help="Hugging Face id or folder of the tokenizer, where there is no such file")
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--wordlist-dir", type=Path)
    parser.add_argument("--shared-url", help="fsspec URL of a store that nodes share")
    parser.add_argument("--shared-bytes", type=int, default=2**36)
    return parser


def _load_tokenizer(digest: str | None, store: ArtefactStore) -> Speller | None:
    """Load the speller of a stored tokenizer; None without a digest, or where none is stored."""
    return None if digest is None else store.find(digest, lambda name: load_stored_tokenizer(name, store))


def _store_and_start_again(options: argparse.Namespace, store: ArtefactStore) -> None:
    """Store the model's tokenizer, and restart this process without its libraries, whose 450 MB no compile needs."""
    if options.model is None:
        raise SystemExit("there is no stored tokenizer of that digest, and no --model")
    speller = load_speller(options.model, trust_remote_code=options.trust_remote_code)
    store_tokenizer(speller, store)
    again = ["--tokenizer", speller.digest, "--folder", options.folder, "--max-bytes", options.max_bytes]
    if options.wordlist_dir is not None:
        again += ["--wordlist-dir", options.wordlist_dir]
    if options.shared_url is not None:
        again += ["--shared-url", options.shared_url, "--shared-bytes", options.shared_bytes]
    os.execv(sys.executable, [sys.executable, "-m", "vocab.compiler.worker", *map(str, again)])  # noqa: S606 - this program


def _jobs_until_eof(lines: BinaryIO) -> Iterable[Job]:
    """Yield jobs as they come. The end of the input is noticed while a job runs, too, and ends the process."""
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for line in lines:
                jobs.put(read_job(line))
        finally:
            jobs.put(None)
            time.sleep(EXIT_S)
            os._exit(0)

    threading.Thread(target=read, name="jobs", daemon=True).start()
    while (job := jobs.get()) is not None:
        yield job


def store_tokenizer(speller: Speller, store: ArtefactStore) -> Path:
    """Store a tokenizer as an artefact, unless the file exists; raise ``ArtefactError`` if it cannot be written."""
    if store.has(speller.digest):
        return store.path_of(speller.digest)
    tokens = speller.facts.token_bytes
    arrays: dict[str, Array] = {
        "ends": np.cumsum([0, *map(len, tokens)], dtype=np.int64),
        "bytes": np.frombuffer(b"".join(tokens), dtype=np.uint8),
        "rules": np.frombuffer(speller.rules.encode(), dtype=np.uint8),
    }
    return store.write_bytes(speller.digest, write_tensors(arrays, {"tokenizer": speller.facts.digest}))


def load_stored_tokenizer(digest: str, store: ArtefactStore) -> Speller:
    """Load the speller of a tokenizer that ``store_tokenizer`` wrote.

    Raises:
        ArtefactError: The file is missing, damaged, or holds another tokenizer.
    """
    arrays, metadata = read_tensors(store.read_bytes(digest))
    try:
        data = arrays["bytes"].tobytes()
        facts = TokenizerFacts(tuple(data[start:end] for start, end in pairwise(arrays["ends"].tolist())))
        speller = Speller.from_rules(arrays["rules"].tobytes().decode(), facts)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"the tokenizer {digest} cannot be used: {error}") from None
    if speller.digest != digest or metadata["tokenizer"] != facts.digest:
        raise ArtefactError(f"the file of tokenizer {digest} holds another one")
    return speller


if __name__ == "__main__":
    main(sys.argv[1:])
