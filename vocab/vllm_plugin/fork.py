"""What a request says about the engine's work on it: whether it is kept, and which kept work it goes on from.

It travels as vLLM's ``kv_transfer_params``. Nothing here knows of blocks or of vLLM: a client of the engine writes it,
the connector in the engine reads it. It is advice: where the engine cannot follow it, the answer is the same, later.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

TRANSFER_CONFIG: Final = {
    "kv_connector": "KVFork",
    "kv_connector_module_path": "vocab.vllm_plugin.kv_fork",
    # A consumer would let requests leave out their images, and keep freed blocks longer than our order of work needs.
    "kv_role": "kv_producer",
}
"""vLLM's ``kv_transfer_config`` with which an engine follows it."""

_EXTRA_ARG: Final = "kv_transfer_params"
_OURS: Final = "wordbound"


@dataclass(frozen=True, slots=True)
class Fork:
    """A request's place among requests that share what the engine computed.

    Attributes:
        keep: Names what is computed for this request, so that others can go on from it; None for nobody will. What was
            kept under that name before is forgotten.
        parent: Names what was kept of a request whose tokens this prompt begins with; None for none. Tokens that differ
            are computed, whatever the name says.
        release: Names that nobody will go on from, once this request is running.
    """

    keep: str | None = None
    parent: str | None = None
    release: tuple[str, ...] = ()

    def to_extra_args(self) -> dict[str, Any]:
        """What to put into vLLM's ``SamplingParams.extra_args``."""
        return {_EXTRA_ARG: {_OURS: {"keep": self.keep, "parent": self.parent, "release": list(self.release)}}}

    @classmethod
    def parse(cls, params: object) -> Self | None:
        """Reads vLLM's ``Request.kv_transfer_params``; None where they say nothing of this kind."""
        ours = params.get(_OURS) if isinstance(params, dict) else None
        if not isinstance(ours, dict):
            return None
        release = ours.get("release")
        return cls(
            keep=_name(ours.get("keep")),
            parent=_name(ours.get("parent")),
            release=tuple(filter(_name, release)) if isinstance(release, (list, tuple)) else (),
        )


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
