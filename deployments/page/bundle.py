"""Serve the page's files from memory, without a key.

Their names are fixed, so a browser asks each time whether a file has changed and is answered 304 while it has not.
"""

import gzip
import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

STATIC: Final = Path(__file__).parent / "static"

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_INDEX: Final = "index.html"
_PREFIX: Final = "/page/"

_MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}

_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Bundle:
    """The files of a folder, read once: ``index.html`` at ``/``, the others below ``/page/``."""

    def __init__(self, folder: Path = STATIC) -> None:
        """Read the folder.

        Raises:
            FileNotFoundError: There is no ``index.html`` in it.
            ValueError: A file's name ends in a way that has no media type here.
        """
        if not (folder / _INDEX).is_file():
            raise FileNotFoundError(f"{folder} has no {_INDEX}: build the page with `make page`, or set page: false")
        files = [file for file in sorted(folder.iterdir()) if file.is_file()]
        self._files = {"/" if file.name == _INDEX else _PREFIX + file.name: _File(file) for file in files}

    @property
    def paths(self) -> Collection[str]:
        """None of them needs a key."""
        return self._files.keys()

    def answer(self, request: Request) -> Response:
        """Answer a request for one of ``paths``."""
        return self._files[request.url.path].answer(request)


class _File:
    """A file of the page, plain and, where that is smaller, compressed: by encoding the body and its ETag."""

    def __init__(self, file: Path) -> None:
        if file.suffix not in _MEDIA_TYPES:
            raise ValueError(f"{file}: expected a name that ends in one of {', '.join(_MEDIA_TYPES)}")
        self._media_type = _MEDIA_TYPES[file.suffix]
        body = file.read_bytes()
        digest = hashlib.sha256(body).hexdigest()[:32]
        self._forms: dict[str | None, tuple[bytes, str]] = {None: (body, f'"{digest}"')}
        # Without a time in it, so that all ingresses send the same bytes.
        packed = gzip.compress(body, mtime=0)
        if len(packed) < len(body):
            self._forms["gzip"] = packed, f'"{digest}-gzip"'

    def answer(self, request: Request) -> Response:
        """Answer with the file, compressed if the client accepts it, or 304 where the client has it."""
        headers = {**_HEADERS}
        encoding = None
        if "gzip" in self._forms:
            headers["Vary"] = "Accept-Encoding"
            encoding = "gzip" if _accepts_gzip(",".join(request.headers.getlist("accept-encoding"))) else None
        body, etag = self._forms[encoding]
        headers["ETag"] = etag
        if _matches(",".join(request.headers.getlist("if-none-match")), etag):
            return Response(status_code=304, headers=headers)
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        headers |= {"Content-Length": str(len(body)), "Content-Type": self._media_type}
        return Response(b"" if request.method == "HEAD" else body, headers=headers)


def _accepts_gzip(accepted: str) -> bool:
    """Return whether an ``Accept-Encoding`` names gzip, or ``*``, without the weight 0."""
    weights: dict[str, bool] = {}
    for part in accepted.split(","):
        coding, _, weight = part.partition(";")
        weights[coding.strip().lower()] = not re.fullmatch(r"\s*q=0(\.0*)?\s*", weight)
    return weights.get("gzip", weights.get("*", False))


def _matches(known: str, etag: str) -> bool:
    """Return whether an ``If-None-Match`` names this ETag; as for caches, a weak tag is as good."""
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return etag in tags or "*" in tags
