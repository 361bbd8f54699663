"""A request to a word tool while it is answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deployments.contract import Caller, WordToolRequest, usage
from deployments.replica.engine.loaded_adapters import name_of
from deployments.replica.engine.node_lists import NodeList


@dataclass
class ToolTask:
    """One request, its list on this node, and the tokens read and drawn for it.

    Attributes:
        request: Its vocabulary has the ``names``.
        width: How many sequences at most are at once in the engine.
        names: Those of its text that were not listed, where it keeps names.
    """

    request: WordToolRequest
    listed: NodeList
    width: int
    names: Sequence[str] = ()
    num_read: int = 0
    num_drawn: int = 0

    @property
    def body(self) -> dict[str, Any]:
        return self.request.body

    @property
    def caller(self) -> Caller:
        return self.request.caller

    def report(self) -> dict[str, Any]:
        """Return the members with which every answer ends: ``vocab``, and the ``usage`` so far."""
        return {
            "vocab": {**self.listed.block, "adapter": name_of(self.caller.adapter)},
            "usage": usage(self.num_read, self.num_drawn),
        }
