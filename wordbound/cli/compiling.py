"""``wordbound compile``: compile word lists for a model's tokenizer, before a service asks for them.

The compile process of the service does it (``vocab.compiler.worker``), so that the artefacts are those it looks for.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from vocab.compiler.compile_process import CompileProcess, NotBegunError, WorkerCommand
from vocab.compiler.jobs import FIRST_WORDS, Compiled, CompileList
from vocab.errors import CompileError
from vocab.lists.wordlists import Unit, list_name
from wordbound.cli import InputError
from wordbound.cli.asking import progress
from wordbound.cli.service import check_installed

FOLDER_BYTES: Final = 4 * 2**30
STORE_BYTES: Final = 64 * 2**30
"""The service's own defaults (``artefact_bytes``, ``artefact_store_bytes``)."""


def run_compile(
    lists: Annotated[
        list[str], typer.Argument(metavar="LIST...", help="Languages such as en, or names of list files.")
    ],
    model: Annotated[
        str, typer.Option(envvar="MODEL_NAME", metavar="NAME", help="A Hugging Face id or a folder with a tokenizer.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(envvar="WORDBOUND_ARTEFACT_DIR", metavar="FOLDER", help="Where to; the service's, if not given."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            envvar=["ARTEFACT_STORE", "WORDBOUND_ARTEFACT_STORE"],
            metavar="URL",
            help="A store that nodes share: s3://bucket/lists.",
        ),
    ] = None,
    wordlist_dir: Annotated[
        Path | None,
        typer.Option(
            envvar=["WORDLIST_DIR", "WORDBOUND_WORDLIST_DIR"],
            metavar="FOLDER",
            help="Where list files are, <name>.txt.",
        ),
    ] = None,
    unit: Annotated[Unit, typer.Option(help="What N counts.")] = "form",
    whole: Annotated[
        bool, typer.Option("--whole", help=f"Also what requests for more than {FIRST_WORDS:,} words need.")
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the tokenizer's own program.")
    ] = False,
) -> None:
    """One artefact serves every N up to 20,000; what is there already is not made again."""
    check_installed("compile")
    jobs = [job for name in dict.fromkeys(lists) for job in _jobs(name, wordlist_dir, unit, whole=whole)]
    folder = (to or _default_folder()).expanduser()
    command = WorkerCommand(folder, FOLDER_BYTES, model, trust_remote_code, None, wordlist_dir, store, STORE_BYTES)
    with progress() as bar, _worker(command) as worker:
        task = bar.add_task("reading the tokenizer", total=len(jobs))
        worker.wait_until_ready()
        for job in jobs:
            bar.update(task, description=f"compiling {job.lang}")
            reply = worker.ask(job)
            if reply.error is not None or reply.compiled is None:
                raise InputError(f"{job.lang}: {reply.error}")
            print(_line(job, reply.compiled), flush=True)
            bar.advance(task)


@contextmanager
def _worker(command: WorkerCommand) -> Iterator[CompileProcess]:
    """Start the compile process for the body, and let it finish then; InputError with its last words where it died."""
    with tempfile.TemporaryFile() as errors:
        process = CompileProcess(command.arguments(), errors=errors)
        try:
            yield process
        except (NotBegunError, CompileError) as error:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise InputError(f"the compile process ended: {lines[-1][:300] if lines else error}") from None
        finally:
            process.close()


def _jobs(name: str, wordlist_dir: Path | None, unit: Unit, *, whole: bool) -> Iterator[CompileList]:
    """Yield the jobs that the service sends its compile process when a list is asked for by this name."""
    name = list_name(name, wordlist_dir)
    # Of a file the service makes all at once: it may be replaced before the rest is asked for.
    is_file = wordlist_dir is not None and (wordlist_dir / f"{name}.txt").is_file()
    if not is_file:
        yield CompileList(name, unit=unit, is_whole=False)
    if is_file or whole:
        yield CompileList(name, unit=unit)


def _line(job: CompileList, made: Compiled) -> str:
    how = "is there already" if made.was_stored else f"made in {made.seconds:.1f} s"
    which = f"the first {made.num_ranks_here:,}" if made.num_ranks_here < made.num_ranks else "all"
    dropped = f"; this tokenizer cannot spell {made.num_dropped:,}" if made.num_dropped else ""
    return f"{job.lang}: {which} of {made.num_ranks:,} words, {how}, artefact {made.digest[:12]}{dropped}"


def _default_folder() -> Path:
    # As the service's settings have it.
    if named := os.environ.get("WORDBOUND_CACHE"):
        return Path(named) / "artefacts"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "wordbound" / "artefacts"
