"""Write the text of the file on standard input: python -m vocab.documents NAME

The exit status is 1 where it cannot be read; standard error then says why, in half a line.
"""

import resource
import sys
from typing import Final

from vocab.documents import text_of
from vocab.errors import DocumentError

MAX_MEMORY_BYTES: Final = 2 * 2**30
"""A file that needs more ends this process, and not others."""


def main(name: str) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        text = text_of(sys.stdin.buffer.read(), name)
    except DocumentError as error:
        sys.stderr.write(str(error))
        return 1
    except (MemoryError, RecursionError):
        sys.stderr.write("it takes too much memory to read; save it anew, or as plain text")
        return 1
    # What no UTF-8 can hold stands in damaged files only.
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
