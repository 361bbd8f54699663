"""The route that answers with a text as a DOCX, to print."""

import asyncio
import re
from functools import partial
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, Request, Response

from deployments.errors import ApiError, to_api_error
from deployments.ingress.answers import ClientLeft, unless_client_leaves
from deployments.ingress.body import read_checked
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


def add_documents(app: FastAPI, settings: Settings) -> None:
    @app.post("/v1/documents")
    async def make_document(request: Request) -> Response:
        """A text as a file of Word, with a title and a glossary."""
        asked = await read_checked(request, settings.limits, partial(read_document, limits=settings.limits))
        try:
            file = await unless_client_leaves(request.receive, asyncio.to_thread(write_docx, asked))
        except (ApiError, ClientLeft):
            raise
        except Exception as error:
            raise to_api_error(error, request.state.request_id, "new_words") from error
        headers = {"Content-Disposition": _attachment(asked.title or ""), "X-Content-Type-Options": "nosniff"}
        return Response(file, media_type=DOCX, headers=headers)


def _attachment(title: str) -> str:
    """Return a header that has a browser save the file under its title (RFC 6266)."""
    name = " ".join(_NOT_IN_NAMES.sub(" ", title).split())[:_MAX_NAME_CHARS].strip(". ") or "text"
    if name.isascii():
        return f'attachment; filename="{name}.docx"'
    return f"attachment; filename=\"text.docx\"; filename*=UTF-8''{quote(name, safe='')}.docx"
