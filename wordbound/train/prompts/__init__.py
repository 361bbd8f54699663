"""Built-in prompts for training texts: kinds of text and topics by language, one a line in ``<lang>.txt``.

None of them is among the prompts that benchmarks judge with.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vocab.lists.wordlists import language_of

FOLDER: Final = Path(__file__).parent
_TOPIC: Final = "{}"


def languages() -> list[str]:
    """Return the languages that have built-in prompts."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def built_in_prompts(lang: str, seed: int) -> list[str]:
    """Return a language's built-in prompts, each kind of text with each topic, in an order of that seed.

    Raises:
        FileNotFoundError: There are none of that language.
    """
    path = FOLDER / f"{language_of(lang)}.txt"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    kinds = [line for line in lines if _TOPIC in line]
    topics = [line for line in lines if _TOPIC not in line]
    return shuffle([kind.replace(_TOPIC, topic) for kind in kinds for topic in topics], seed)


def shuffle(prompts: Sequence[str], seed: int) -> list[str]:
    """Return the prompts in an order of that seed."""
    shuffled = list(prompts)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order, not a secret
    return shuffled
