"""What one check of ``wordbound doctor`` found."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line, and what to do about it.

    Attributes:
        level: ``fail`` where something that is needed does not work; ``note`` where it works, though not as tested.
        todo: What the reader does; empty where nothing is to be done.
    """

    level: Level
    said: str
    todo: str = ""

    def __str__(self) -> str:
        return f"{self.level:<4}  {self.said}" + (f"\n      -> {self.todo}" if self.todo else "")
