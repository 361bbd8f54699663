"""The command line that the programs share."""

import argparse
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows a program's description, with the model that every program takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", type=_folder, default="", help="a local folder or a Hugging Face id; by default the demo's model"
    )
    return parser


def numbers(text: str) -> list[int]:
    """Read whole numbers with commas between them."""
    return [int(part) for part in text.split(",")]


def _folder(text: str) -> str:
    if not text:
        from deployments.demo.model import smollm2_path

        return str(smollm2_path())
    return str(Path(text).resolve()) if Path(text).is_dir() else text
