"""The routes of files: a text as a DOCX, to print, and the text of a DOCX, EPUB, PDF, Markdown or plain file.

A process of its own reads each file: one that is made to take long, or much memory, ends with it.
"""

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from deployments.errors import ApiError, BadRequestError, to_api_error
from deployments.ingress.answers import ClientLeft, WholeAnswer, unless_client_leaves
from deployments.ingress.body import read_body, read_checked
from deployments.ingress.connections.backlog import Backlog
from deployments.ingress.query import read_query
from deployments.limits import Limits
from deployments.page.docx_file import write_docx
from deployments.protocol.documents import DOCX, read_document
from deployments.settings import Settings

DOCUMENT_PATH: Final = b"/v1/documents"

DOCUMENTS_AT_ONCE: Final = 4
"""Of one ingress, all keys together. Costs a thread each, which shares the interpreter with all streams."""

_MAX_NAME_CHARS: Final = 80

_NOT_IN_NAMES: Final = re.compile(r'[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"*/:<>?\\|]+')
"""In names of files on any system: what is refused there, and marks that turn the direction around and so hide what a
name ends in."""

DOCUMENT_TEXT_PATH: Final = b"/v1/documents/text"

FILES_AT_ONCE: Final = 4
"""Of one ingress, all keys together. Costs a process each."""

MAX_NAME_CHARS: Final = 255

_REFUSED: Final = 1
"""The exit status where the file cannot be read."""


def add_documents(app: FastAPI, settings: Settings, backlog: Backlog) -> None:
    limits = settings.limits

    @app.post("/v1/documents")
    async def make_document(request: Request) -> Response:
        """A text as a file of Word, with a title and a glossary."""
        asked = await read_checked(request, limits, partial(read_document, limits=limits))
        try:
            file = await unless_client_leaves(request.receive, asyncio.to_thread(write_docx, asked))
        except (ApiError, ClientLeft):
            raise
        except Exception as error:
            raise to_api_error(error, request.state.request_id, "new_words") from error
        headers = {"Content-Disposition": _attachment(asked.title or ""), "X-Content-Type-Options": "nosniff"}
        return WholeAnswer(file, DOCX, backlog, headers)

    @app.post("/v1/documents/text")
    async def read_document_text(request: Request) -> Response:
        """The text of a file, as ``wordbound check`` reads it. The body is the file; its kind is told by its bytes."""
        name = read_query(request, ("name",)).get("name", "")
        if len(name) > MAX_NAME_CHARS or "\0" in name:
            raise BadRequestError(f"'name' must be a file's name of at most {MAX_NAME_CHARS} characters.", "name")
        data = await read_body(request, limits.max_file_bytes, limits.max_body_s)
        text = await unless_client_leaves(request.receive, _text_of(data, name, limits))
        return WholeAnswer(JSONResponse({"text": text}).body, "application/json", backlog)


def _attachment(title: str) -> str:
    """Return a header that has a browser save the file under its title (RFC 6266)."""
    name = " ".join(_NOT_IN_NAMES.sub(" ", title).split())[:_MAX_NAME_CHARS].strip(". ") or "text"
    if name.isascii():
        return f'attachment; filename="{name}.docx"'
    return f"attachment; filename=\"text.docx\"; filename*=UTF-8''{quote(name, safe='')}.docx"


async def _text_of(data: bytes, name: str, limits: Limits) -> str:
    """Return the text of a file.

    Raises:
        BadRequestError: It cannot be read, takes too long, or has more text than can be checked.
    """
    packages = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vocab.documents", name),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "PYTHONPATH": packages},
    )
    try:
        async with asyncio.timeout(limits.max_file_s):
            text, said = await process.communicate(data)
    except TimeoutError:
        raise _refused(f"it takes more than {limits.max_file_s:g} s to read; send a part of it") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode == _REFUSED and said:
        raise _refused(said.decode())
    if process.returncode:
        raise _refused("the file is damaged; save it anew, or as plain text")
    if len(text) > limits.max_check_bytes:
        raise _refused(f"it has more than {limits.max_check_bytes:,} bytes of text; send a part of it")
    return text.decode()


def _refused(reason: str) -> BadRequestError:
    return BadRequestError(f"The file cannot be read: {reason}.")
