"""Read a text file in pieces, as what a decoder learns from."""

import codecs
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from wordbound.train.options import TrainError

_BLANK_LINES: Final = re.compile(r"\n[ \t\r]*\n\s*")
_CHUNK_BYTES: Final = 1 << 20


class Source:
    """The text file of a training, read as a stream and checked to its end.

    Raises:
        TrainError: It cannot be read, or is no text in UTF-8; of ``documents`` too, where the file is changed.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        if not path.is_file():
            raise TrainError(f"there is no file {path}: give the path of a text file")
        self.path = path
        self.size = path.stat().st_size
        self.num_bytes = min(self.size, max_bytes)
        digest = hashlib.sha256()
        num_documents = sum(is_end for _, is_end in self.documents(digest.update))
        if not num_documents:
            raise TrainError(f"{path} has no text: give a file with some")
        self.digest = digest.hexdigest()

    def documents(self, look: Callable[[bytes], object] = len) -> Iterator[tuple[str, bool]]:
        """Yield the file's documents, long ones in pieces of about a chunk, and whether each ends its document.

        ``look`` is called with all bytes, by chunks.
        """
        decoder = codecs.getincrementaldecoder("utf-8")()
        left = ""
        for start, chunk in self._chunks():
            look(chunk)
            if (found := chunk.find(0)) >= 0:
                raise self._binary(start + found, "a NUL")
            num_pending = len(decoder.getstate()[0])
            try:
                left += decoder.decode(chunk, start + len(chunk) == self.size)
            except UnicodeDecodeError as error:
                raise self._binary(start - num_pending + error.start, "no UTF-8") from error
            *paragraphs, left = _BLANK_LINES.split(left.removeprefix("\ufeff"))
            yield from ((text.strip(), True) for text in paragraphs if text.strip())
            if len(left) >= _CHUNK_BYTES:
                yield left, False
                left = ""
        if left.strip():
            yield left.strip(), True

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the chunks of the file that are used, each with its offset in bytes."""
        try:
            with self.path.open("rb") as file:
                for start in range(0, self.num_bytes, _CHUNK_BYTES):
                    yield start, file.read(min(_CHUNK_BYTES, self.num_bytes - start))
        except OSError as error:
            raise TrainError(f"cannot read {self.path}: {error.strerror}") from error

    def _binary(self, offset: int, what: str) -> TrainError:
        return TrainError(f"{self.path} is no text in UTF-8: byte {offset} is {what}; convert it to UTF-8 first")
