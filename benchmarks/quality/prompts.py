"""The fixed prompts: one a line in ``prompts/<lang>.txt``, the same ones in each language. Their order is fixed too,
so that the first K are the same in every run."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "prompts"


def languages() -> list[str]:
    """The languages that there are prompts in."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def load_prompts(lang: str, num_prompts: int) -> list[str]:
    """The first prompts of a language; all of them where there are no more."""
    return (FOLDER / f"{lang}.txt").read_text(encoding="utf-8").splitlines()[:num_prompts]
