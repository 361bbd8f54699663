"""Tool calls whose arguments are in listed words: made of a text that was read, as it grows."""

import json
import re
from typing import Any, Final
from uuid import uuid4

_CALL: Final = re.compile(r'[\s\[,]*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"parameters"\s*:\s*(?=\S)')
"""The beginning of a call in a list of calls, up to its arguments."""


class ToolCallText:
    """The text of one choice.

    ``name`` is of the tool whose arguments the text is; None where it is a list of calls.
    """

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._rest = ""
        self._num_calls = 0
        # Within the arguments of a call: how many brackets are open, and whether a string is, and an escape in it.
        self._is_open = False
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def add(self, text: str) -> list[dict[str, Any]]:
        """Read the next part of the text; return the parts of calls in it, one for each call."""
        self._rest += text
        calls: dict[int, dict[str, Any]] = {}
        while self._rest:
            if not self._is_open and not self._begin(calls):
                break
            length, index = self._num_of_arguments(), self._num_calls - 1
            if length:
                call = calls.setdefault(index, {"index": index, "function": {"arguments": ""}})
                call["function"]["arguments"] += self._rest[:length]
            # Without the bracket that closes the call in a list.
            self._rest = self._rest[length if self._is_open else length + 1 :]
        return list(calls.values())

    def _begin(self, calls: dict[int, dict[str, Any]]) -> bool:
        """Add the beginning of a call, if the rest of the text has all of it; return whether it has."""
        name = self._name
        if name is None:
            if (begun := _CALL.match(self._rest)) is None:
                return False
            name, self._rest = json.loads(begun[1]), self._rest[begun.end() :]
        function = {"name": name, "arguments": ""}
        called = {"id": f"chatcmpl-tool-{uuid4().hex}", "type": "function", "function": function}
        calls[self._num_calls] = {"index": self._num_calls, **called}
        self._num_calls += 1
        self._is_open, self._depth = True, 0
        return True

    def _num_of_arguments(self) -> int:
        """Return how many characters of the rest are of the open call's arguments; close the call where they end."""
        for number, character in enumerate(self._rest):
            if self._in_string:
                self._in_string = self._is_escaped or character != '"'
                self._is_escaped = character == "\\" and not self._is_escaped
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth < 0:
                    self._is_open = False
                    return number
        return len(self._rest)
