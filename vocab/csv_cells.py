"""Tables of comma-separated values that no spreadsheet takes for formulas (CSV injection)."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_FORMULA: Final = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
"""How a cell begins that a spreadsheet computes, after any number of the marks that keep it from it:
https://owasp.org/www-community/attacks/CSV_Injection"""


_QUOTED: Final = re.compile('[",\r\n]')


def write_csv(rows: Iterable[Sequence[object]]) -> str:
    """Write a CSV table; ``'`` stands before a text that would be a formula, and ``read_cell`` takes it away."""
    # Not by the package csv, which leaves a carriage return bare where lines end in a line feed (3.11).
    return "".join((",".join(map(_write_cell, row)) or '""') + "\n" for row in rows)


def _write_cell(cell: object) -> str:
    text = "" if cell is None else str(cell)
    if isinstance(cell, str) and _FORMULA.match(text):
        text = f"'{text}"
    return '"{}"'.format(text.replace('"', '""')) if _QUOTED.search(text) else text


def read_cell(cell: str) -> str:
    """Return the text of a CSV cell that ``write_csv`` wrote, without the ``'`` before a formula."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
