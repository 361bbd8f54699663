"""Sends a file piece by piece, each read when the one before has gone. Knows neither whose it is nor where it lies.

Its length is promised first, so that a client notices if it breaks off.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Self, TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from deployments.errors import InternalError
from deployments.ingress.disconnect import unless_client_leaves

PIECE_BYTES: Final = 4 * 2**20
"""Costs as much memory for each file that is being sent, on each side of the handle."""

Read: TypeAlias = Callable[[int, int], Awaitable[bytes]]
"""Gives so many bytes from an offset on, or fewer where the file ends."""


class FileStream(Response):
    """An answer that is a file."""

    def __init__(self, first: bytes, read: Read, num_bytes: int, media_type: str, request_id: str) -> None:
        super().__init__(media_type=media_type, headers={"Content-Length": str(num_bytes)})
        self._first = first
        self._read = read
        self._num_bytes = num_bytes
        self._request_id = request_id

    @classmethod
    async def begin(cls, read: Read, num_bytes: int, media_type: str, request_id: str) -> Self:
        """Read the first piece, while an error can still be told.

        Raises:
            ApiError: It cannot be read.
        """
        first = await _exactly(read, 0, num_bytes, request_id)
        return cls(first, read, num_bytes, media_type, request_id)

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await unless_client_leaves(receive, self._send_pieces(send))

    async def _send_pieces(self, send: Send) -> None:
        piece, self._first = self._first, b""
        sent = 0
        while True:
            sent += len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": sent < self._num_bytes})
            if sent == self._num_bytes:
                return
            piece = await _exactly(self._read, sent, self._num_bytes, self._request_id)


async def _exactly(read: Read, offset: int, end: int, request_id: str) -> bytes:
    piece = await read(offset, PIECE_BYTES)
    if len(piece) != min(PIECE_BYTES, end - offset):
        raise InternalError(request_id)
    return piece
