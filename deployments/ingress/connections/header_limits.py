"""Bound the headers of a request while uvicorn reads them, before there is a request that anybody could refuse.

httptools, which uvicorn takes where it is installed, has no limit of its own: each header of 100 MB would lie in the
proxy, and Serve would pickle it for a replica, before a key is asked for. Trailers of a chunked body are headers too.
"""

from typing import Any, Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from deployments.errors import ApiError, BadRequestError, HeadersTooLargeError
from deployments.ingress.connections.idle_connections import abort
from deployments.settings.limits import MAX_HEADER_BYTES, MAX_HEADERS

"""The defaults, for the proxy knows no settings; the ingress refuses what is beyond those."""

MAX_PIPELINED: Final = 8
"""Requests that wait, parsed, for the answer to one before them on their connection. Costs 4 KB each; 14,000 fit into
one read of the server, which keeps the rest as bytes. Browsers send none."""

_EMPTY_LINE: Final = b"\r\n\r\n"
"""Every request has one."""


class HeaderLimitProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; ends connections with too many header bytes or headers, and parses few requests ahead.

    The request line and trailers count as headers.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Since the last piece of a body, or the end of a request: of headers that the parser has not passed on.
        self._unparsed_bytes = 0
        self._unread = bytearray()
        self._header_bytes = 0
        self._num_headers = 0
        self._refusal: ApiError | None = None

    @override
    def data_received(self, data: bytes) -> None:
        """Parse data as far as its requests may wait; keep the rest and read no more until they have been answered."""
        self._unread += data
        self._parse()

    @override
    def on_response_complete(self) -> None:
        """Start the next request, and parse further ones in its place."""
        super().on_response_complete()
        self._parse()

    def _parse(self) -> None:
        while self._unread and len(self.pipeline) < MAX_PIPELINED and not self.transport.is_closing():
            end = _end_of_few(self._unread)
            piece = bytes(self._unread[:end])
            del self._unread[:end]
            self._unparsed_bytes += len(piece)
            super().data_received(piece)
            if self._unparsed_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
                self._refusal = _too_many_bytes()
                self.send_400_response("")
        if self._unread:
            self.flow.pause_reading()

    @override
    def on_message_begin(self) -> None:
        """Start the header counts of a new request."""
        super().on_message_begin()
        self._header_bytes = self._num_headers = 0

    @override
    def on_url(self, url: bytes) -> None:
        """Count the URL towards the header bytes."""
        self._count(len(url))
        super().on_url(url)

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header and its bytes; refuse it beyond the limits."""
        self._num_headers += 1
        if self._num_headers > MAX_HEADERS:
            raise self._refuse(HeadersTooLargeError(f"There are more than {MAX_HEADERS} headers."))
        self._count(len(name) + len(value))
        super().on_header(name, value)

    @override
    def on_body(self, body: bytes) -> None:
        """Start the count of header bytes anew: what came so far was a body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        """Start the count of header bytes anew: the request is complete."""
        self._unparsed_bytes = 0
        super().on_message_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer with the refusal (400 or 431) and close; abort if an answer is under way.

        uvicorn calls this for what the parser refuses, or a method above.
        """
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if is_answering and (cycle.response_started or self.pipeline or cycle.scope is not self.scope):
            # Nothing may be written into the answer to a request before.
            abort(self.transport)
            return
        error = self._refusal or BadRequestError("The request is not valid HTTP.")
        body = error.to_json()
        headers = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[error.status] + headers + body)
        self.transport.close()

    def _count(self, num_bytes: int) -> None:
        """Add to the request's header bytes; refuse it beyond ``MAX_HEADER_BYTES``."""
        self._header_bytes += num_bytes
        if self._header_bytes > MAX_HEADER_BYTES:
            raise self._refuse(_too_many_bytes())

    def _refuse(self, error: ApiError) -> ApiError:
        """Store an error for ``send_400_response``, and return it to be raised."""
        self._refusal = error
        return error


def _end_of_few(data: bytearray) -> int:
    """Return where data ends that begins with ``MAX_PIPELINED`` requests at most."""
    end = 0
    for _ in range(MAX_PIPELINED):
        found = data.find(_EMPTY_LINE, end)
        if found < 0:
            return len(data)
        end = found + len(_EMPTY_LINE)
    return end


def _too_many_bytes() -> HeadersTooLargeError:
    return HeadersTooLargeError(f"The headers have more than {MAX_HEADER_BYTES} bytes.")
