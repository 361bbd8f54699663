from typing import Any

import wordbound.lm


def __getattr__(name: str) -> Any:
    # Where it is asked for: each backend brings its own packages.
    return getattr(wordbound.lm, name)
