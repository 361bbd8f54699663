"""Keep long texts from vLLM's sanitizer of error messages, which runs on the server's event loop.

Its search for paths backtracks: a JSON pointer of 10,000 parts, which xgrammar's message repeats, takes it 70 s
(``docs/upstream.md``). Whatever a client may bring into a message, it gets the beginning.
"""

from collections.abc import Callable
from typing import Final

from vocab.vllm_plugin.patches import Patch, install_patches

MAX_CHARS: Final = 300
"""Takes 5 ms at worst, for the time grows with the square. vLLM's own messages are shorter."""


def _sanitize_beginning(original: Callable[[str], str], message: str) -> str:
    """Sanitize only the beginning of an error message, at most ``MAX_CHARS`` of it."""
    return original(message if len(message) <= MAX_CHARS else message[: MAX_CHARS - 1] + "…")


# Where all errors of chats and completions are made.
_SANITIZER: Final = Patch(
    "vllm.entrypoints.serve.exception_handling.error_response:sanitize_message", "(message)", _sanitize_beginning
)


def install() -> None:
    """Have vLLM sanitize only the beginning of an error message; repeatable."""
    install_patches([_SANITIZER], lost="A long error message may hold up all answers of a replica")
