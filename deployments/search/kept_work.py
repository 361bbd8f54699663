"""The names under which an engine keeps what it computed for a search, so that the next step need not do it again.

It says with each request which work it builds on, under which name its own is kept, and which names no step needs any
more. It is a matter of speed alone: where a name is gone, the engine computes the text again. How an engine keeps
work is ``vocab.vllm_plugin.kv_fork``'s.
"""

from itertools import count

from vocab.vllm_plugin.fork import Fork


class KeptWork:
    """The work kept for one search.

    A step builds on the work of the step before it. So when a step begins to use a generation of work, all older ones
    have been used for the last time, and are let go with it.

    Args:
        name: Begins all its names; no other search may have it.
        unused: Names that searches left behind when they ended, let go with the next step of any; changed here.
    """

    def __init__(self, name: str, unused: list[str]) -> None:
        self._name = name
        self._unused = unused
        self._generations: dict[str, int] = {}
        self._numbers = count(1)

    def step(self, parent: str | None, *, keep: bool) -> Fork:
        """What a step's request says of the work it builds on, and of its own."""
        generation = 0 if parent is None else self._generations.get(parent, 0)
        release = [name for name, of_name in self._generations.items() if of_name < generation]
        for name in release:
            del self._generations[name]
        release += self._unused
        self._unused.clear()
        own = None
        if keep:
            own = f"{self._name}/{next(self._numbers)}"
            self._generations[own] = generation + 1
        return Fork(keep=own, parent=parent, release=tuple(release))

    def end(self) -> None:
        """No step follows."""
        self._unused.extend(self._generations)
        self._generations.clear()
