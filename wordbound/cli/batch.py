"""``wordbound batch``: a file of requests through OpenAI's Files and Batches, from file to file."""

import shlex
from pathlib import Path
from time import sleep
from typing import Annotated, Any, Final

import typer

from wordbound.cli import INTERRUPTED, NOT_AS_ASKED, InputError
from wordbound.cli.asking import UrlOption, connect, note, open_whole, progress
from wordbound.client import DEFAULT_URL, Client
from wordbound.errors import AwayError
from wordbound.routes import Call, read_json

FIRST_LOOK_S: Final = 1.0
LAST_LOOK_S: Final = 10.0
"""Between two looks at a batch, the first and the usual ones: a short batch ends soon, and a long one is not asked for
a thousand times."""

MAX_AWAY: Final = 60
"""Looks in a row at a service that is away, ten minutes: so long may it be started anew, and its batches go on."""

_OPEN: Final = frozenset({"validating", "in_progress", "finalizing", "cancelling"})


def batch(
    input_file: Annotated[Path, typer.Argument(metavar="IN", help="Requests, one a line, in OpenAI's batch format.")],
    output_file: Annotated[Path, typer.Argument(metavar="OUT", help="Where the answers go, one a line.")],
    batch_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with a batch that was begun before; IN is not sent again.")
    ] = None,
    window: Annotated[
        str, typer.Option(metavar="TIME", help="What is not answered by then fails: 24h, or so many s, m, h or d.")
    ] = "24h",
    force: Annotated[bool, typer.Option("--force", help="Write over OUT.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Lines that fail go to a file beside OUT (answers.errors.jsonl beside answers.jsonl); the exit status is 1 then.

    The batch runs in the service: after Ctrl-C, a lost connection or a restart the same line with --batch-id, which is
    shown, goes on with it.
    """
    errors_file = output_file.with_suffix(f".errors{output_file.suffix}")
    _check_files(input_file, output_file, errors_file, force=force, is_sent=batch_id is None)
    with connect(url) as service:
        if batch_id is None:
            batch_id = _start(service, input_file, window)
        how = shlex.join(["wordbound", "batch", str(input_file), str(output_file), "--batch-id", batch_id])
        note(f"the batch is {batch_id}; after an interruption: {how}")
        try:
            ended = _wait(service, batch_id)
            for file_id, path in ((ended["output_file_id"], output_file), (ended["error_file_id"], errors_file)):
                if file_id is not None:
                    _download(service, file_id, path)
        except KeyboardInterrupt:
            note(f"\nthe batch goes on without you; to wait for it again: {how}")
            raise typer.Exit(INTERRUPTED) from None
        except AwayError as error:
            raise AwayError(f"{error}; then: {how}") from None
        except InputError as error:
            raise InputError(f"{error}; then: {how} --force") from None
    counts = ended["request_counts"]
    where = f", in {errors_file}" if ended["error_file_id"] is not None else ""
    note(f"{counts['total']:,} lines: {counts['completed']:,} answered, {counts['failed']:,} failed{where}")
    if ended["status"] != "completed":
        note(f"the batch is {ended['status']}{_why(ended)}")
    if counts["failed"] or ended["status"] != "completed":
        raise typer.Exit(NOT_AS_ASKED)


def _check_files(source: Path, target: Path, errors: Path, *, force: bool, is_sent: bool) -> None:
    """Refuse a missing or empty IN that is to be sent, and an OUT that exists, is IN or has no folder."""
    if is_sent and not source.is_file():
        raise InputError(f"{source}: there is no such file")
    if is_sent and source.stat().st_size == 0:
        raise InputError(f"{source}: there is no request in it")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: there is no such folder for OUT")
    if source.exists() and any(path.exists() and path.samefile(source) for path in (target, errors)):
        raise InputError(f"{target}: IN and OUT are one file; name another OUT")
    for path in (target, errors):
        if path.exists() and not force:
            raise InputError(f"{path} exists: name another OUT, or add --force")


def _start(service: Client, source: Path, window: str) -> str:
    """Upload a file of requests and create a batch of them; return the batch's id."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn

    with (
        progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn()) as bar,
        bar.open(source, "rb", description="sending") as file,
    ):
        form = {"files": {"file": (source.name, file, "application/jsonl")}, "data": {"purpose": "batch"}}
        uploaded = service.send(Call("POST", "/v1/files", read_json, form, is_safe=False))
    body = {"input_file_id": uploaded["id"], "endpoint": "/v1/chat/completions", "completion_window": window}
    return str(service.post("/v1/batches", body)["id"])


def _wait(service: Client, batch_id: str) -> dict[str, Any]:
    """Poll a batch and show its progress until it has ended; return it.

    Raises:
        ServiceError: There is no such batch, or its service was away for too long.
    """
    wait_s, num_away = FIRST_LOOK_S, 0
    with progress() as bar:
        task = bar.add_task("waiting", total=None)
        while True:
            try:
                found = service.get(f"/v1/batches/{batch_id}")
            except AwayError:
                num_away += 1
                if num_away > MAX_AWAY:
                    raise
                bar.update(task, description="the service is away")
            else:
                num_away = 0
                counts = found["request_counts"]
                done = counts["completed"] + counts["failed"]
                bar.update(task, description=found["status"], total=counts["total"] or None, completed=done)
                if found["status"] not in _OPEN:
                    return found
            sleep(wait_s)
            wait_s = min(wait_s * 1.5, LAST_LOOK_S)


def _why(ended: dict[str, Any]) -> str:
    messages = [error.get("message") for error in (ended.get("errors") or {}).get("data", ())]
    return f": {messages[0]}" if messages and messages[0] else ""


def _download(service: Client, file_id: str, path: Path) -> None:
    call = Call("GET", f"/v1/files/{file_id}/content", lambda _: None, {})
    with service.stream(call) as answer, open_whole(path, is_binary=True) as file:
        for piece in answer.iter_bytes():
            file.write(piece)
