"""The routes of files: a text or exercises as a file, the text of a document, and the entries of a word list.

A process of its own reads each file (``file_process``): one that is made to take long, or much memory, ends with it.
"""

import asyncio
import logging
import math
import os
import re
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from deployments.errors import BadRequestError, InternalError, TooManyRequestsError
from deployments.ingress.body import read_body, read_checked, read_query
from deployments.ingress.connections.budgets import Backlog
from deployments.ingress.file_process import REFUSED, command
from deployments.ingress.route import Places, Routes
from deployments.ingress.stream import WholeAnswer, api_errors, unless_client_leaves
from deployments.page.docx_file import write_docx
from deployments.page.worksheet_files import WORKSHEET_FORMATS
from deployments.protocol.answers import DocumentText
from deployments.protocol.documents import (
    DOCX,
    MEDIA_TYPES,
    DocumentRequest,
    WorksheetRequest,
    read_document,
    read_worksheet,
)
from deployments.protocol.openapi import BINARY, BYTES
from deployments.settings.limits import MAX_CHECK_BYTES, Limits
from deployments.settings.service import Settings
from vocab.answers import ReadVocabulary
from vocab.documents.zipped import DAMAGED
from vocab.lists.wordlists import language_of, language_tag

DOCUMENTS_AT_ONCE: Final = 4
"""Of one ingress, all keys together. Costs a thread each, which shares the interpreter with all streams."""

_MAX_SAVED_NAME_CHARS: Final = 80

_NOT_IN_NAMES: Final = re.compile(r'[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"*/:<>?\\|]+')
"""In names of files on any system: what is refused there, and marks that turn the direction around and so hide what a
name ends in."""

FILES_AT_ONCE: Final = 4
"""Of one ingress, all keys together. Costs a process each."""

MAX_NAME_CHARS: Final = 255

MAX_WORDS_BYTES: Final = 32 * 2**20
"""Of the answer about a file of words. A line of a list makes 100 bytes."""

logger = logging.getLogger("ray.serve.wordbound")


def add_documents(routes: Routes, settings: Settings, backlog: Backlog) -> None:
    """Add the routes that write a text or exercises as a file, and that read the text of a file."""
    limits = settings.limits
    readers = _FileReaders(limits)
    places = Places(DOCUMENTS_AT_ONCE)
    file_places = Places(FILES_AT_ONCE)

    async def read_file(request: Request, query: Mapping[str, str], words_of: str | None = None) -> str:
        """Read the body, a file, in a child process: its text, or its words in JSON."""
        name = query.get("name", "")
        if len(name) > MAX_NAME_CHARS or "\0" in name:
            raise BadRequestError(f"'name' must be a file's name of at most {MAX_NAME_CHARS} characters.", "name")
        state = request.state
        readers.check_time_left(state.owner)
        data = await read_body(request, limits.max_file_bytes, limits.max_body_s)
        reading = readers.read(data, name, words_of, state.owner, state.request_id)
        return await unless_client_leaves(request.receive, reading)

    @routes.add("POST", "/v1/documents", body=DocumentRequest, answer={DOCX: BINARY}, part="chat", places=places)
    async def make_document(request: Request) -> Response:
        """A text as a file of Word, with a title and a glossary."""
        asked = await read_checked(request, limits, read_document)
        with api_errors(request, "new_words"):
            file = await unless_client_leaves(request.receive, asyncio.to_thread(write_docx, asked))
        return WholeAnswer(file, DOCX, backlog, _as_file(asked.title, "docx"))

    @routes.add(
        "POST",
        "/v1/documents/worksheet",
        body=WorksheetRequest,
        answer={media_type.partition(";")[0]: BINARY for media_type in MEDIA_TYPES.values()},
        part="chat",
        places=places,
    )
    async def make_worksheet(request: Request) -> Response:
        """Exercises as a file: for Word, a learning platform, or Anki."""
        asked = await read_checked(request, limits, read_worksheet)
        form = WORKSHEET_FORMATS[asked.format]
        with api_errors(request):
            file = await unless_client_leaves(request.receive, asyncio.to_thread(form.write, asked))
        return WholeAnswer(file, MEDIA_TYPES[asked.format], backlog, _as_file(asked.title, form.ending))

    @routes.add(
        "POST",
        "/v1/documents/text",
        body={BYTES: BINARY},
        answer=DocumentText,
        query={"name": {"type": "string", "description": "The file's name."}},
        part="chat",
        places=file_places,
    )
    async def read_document_text(request: Request) -> Response:
        """The text of a file, as ``wordbound check`` reads it. The body is the file; its bytes say of what kind."""
        text = await read_file(request, read_query(request, ("name",)))
        return WholeAnswer(JSONResponse({"text": text}).body, "application/json", backlog)

    @routes.add(
        "POST",
        "/v1/vocabularies/read",
        body={BYTES: BINARY},
        answer=ReadVocabulary,
        query={
            "name": {"type": "string", "description": "The file's name."},
            "lang": {"type": "string", "description": "The language of its words."},
        },
        part=None,
        places=file_places,
    )
    async def read_vocabulary(request: Request) -> Response:
        """The words of a file: plain lines, CSV, TSV, XLSX or an export of Anki, as a list file of them is read. The
        body is the file."""
        query = read_query(request, ("name", "lang"))
        with api_errors(request, "lang"):
            language = language_of(language_tag(query["lang"])) if query.get("lang") else ""
        words = await read_file(request, query, language)
        return WholeAnswer(words.encode(), "application/json", backlog)


def _as_file(title: str | None, ending: str) -> dict[str, str]:
    """Return the headers that have a browser save a file under its title (RFC 6266)."""
    name = " ".join(_NOT_IN_NAMES.sub(" ", title or "").split())[:_MAX_SAVED_NAME_CHARS].strip(". ") or "text"
    saved = f'attachment; filename="{name if name.isascii() else "text"}.{ending}"'
    if not name.isascii():
        saved += f"; filename*=UTF-8''{quote(name, safe='')}.{ending}"
    return {"Content-Disposition": saved, "X-Content-Type-Options": "nosniff"}


class _FileReaders:
    """Reads files in child processes: one at a time for each key, each key for so much processor time a minute.

    A key that is overdrawn, for it is not known before what a file takes, waits until it is not.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._turns = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._used_s = dict[str, tuple[float, float]]()

    def check_time_left(self, owner: str) -> None:
        """Refuse a key whose files have used up their processor time.

        Raises:
            TooManyRequestsError: Its files took more processor time than it has.
        """
        most = self._limits.max_file_s_per_minute
        over_s = self._used_seconds(owner) - most
        if over_s >= 0:
            raise TooManyRequestsError(
                f"The files of this key took more than {most:g} s of a processor within a minute. Try again later.",
                "too_many_requests",
                math.floor(over_s * 60 / most) + 1,
            )

    async def read(self, data: bytes, name: str, words_of: str | None, owner: str, request_id: str) -> str:
        """Read a file in a child process, when it is its key's turn: its text, or the words of a language in JSON.

        Raises:
            BadRequestError: It cannot be read, takes too long, or has more text than can be checked.
            TooManyRequestsError: As ``check_time_left``, once it is the file's turn.
            InternalError: The process does not start.
        """
        async with self._turns[owner]:
            self.check_time_left(owner)
            # Of a process that does not say what it took, for it was ended: with one thread it is no more than this.
            started, used_s = time.monotonic(), None
            try:
                status, used_s, said = await self._read_in_process(data, name, words_of)
            finally:
                used_s = time.monotonic() - started if used_s is None else used_s
                self._used_s[owner] = self._used_seconds(owner) + used_s, time.monotonic()
        if status == 0:
            return said
        if status == REFUSED:
            raise _refusal(said)
        if status == -signal.SIGXCPU:
            raise self._too_slow()
        if status > 0:
            logger.error("%s: the process that reads files ended with status %d", request_id, status)
            raise InternalError(request_id)
        raise _refusal(DAMAGED)

    def _used_seconds(self, owner: str) -> float:
        """Return the processor seconds charged to a key now; they expire at the rate that it has."""
        used_s, when = self._used_s.get(owner, (0.0, 0.0))
        return max(0.0, used_s - (time.monotonic() - when) * self._limits.max_file_s_per_minute / 60)

    async def _read_in_process(self, data: bytes, name: str, words_of: str | None) -> tuple[int, float | None, str]:
        """Read a file in a child process, killed after ``max_file_s``: exit status, CPU seconds, text or reason.

        The seconds are None where the process does not say them.
        """
        process = await asyncio.create_subprocess_exec(
            *command(name, self._limits.max_file_s, MAX_CHECK_BYTES if words_of is None else MAX_WORDS_BYTES, words_of),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limits.max_file_s):
                output, _ = await process.communicate(data)
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            status = await process.wait()
        used, is_whole, said = output.partition(b"\n")
        return status, float(used) if is_whole else None, said.decode()

    def _too_slow(self) -> BadRequestError:
        return _refusal(f"it takes more than {self._limits.max_file_s:g} s to read; send a part of it")


def _refusal(reason: str) -> BadRequestError:
    return BadRequestError(f"The file cannot be read: {reason}.")
