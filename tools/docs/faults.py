"""The tests that docs/reliability.md names for each fault, by the marks on them: ``python -m tools.docs.faults``.

A test with ``@pytest.mark.fault(41)`` is named in row 41 of the page. The other cells of a row are written by hand.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reliability.md"

_ROW: Final = re.compile(r"^(\| (\d+) \| .* \|)[^|]*\|$", re.MULTILINE)
"""A row of the tables; its last cell has the tests."""
_SHOWN: Final = ("slow", "stress")
"""Marks that the page shows, for their tests are not in ``make test``."""


def with_tests(page: str) -> str:
    """Return the page with the last cell of each row as the marks on tests have it.

    Raises:
        ValueError: A mark names a row that the page does not have.
    """
    cells = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for number, names in names_by_fault(path.read_text(encoding="utf-8")).items():
            cells[number].append(f"`{path.relative_to(ROOT)}`: {', '.join(names)}")
    rows = {int(number) for _, number in _ROW.findall(page)}
    for number in sorted(cells.keys() - rows):
        raise ValueError(f"{cells[number][0]} has the mark fault({number}), and {PAGE.name} has no such row")
    return _ROW.sub(lambda row: f"{row[1]} {'; '.join(cells.get(int(row[2]), ['–']))} |", page)


def names_by_fault(source: str) -> dict[int, list[str]]:
    """Return the marked tests of a file by the rows that they name, as the page has them."""
    found: dict[int, list[str]] = defaultdict(list)
    if "mark.fault(" not in source:
        return found
    module = ast.parse(source)
    common = {
        mark
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in re.findall(r"pytest\.mark\.(\w+)", ast.unparse(node.value))
    }
    for name, decorators in _decorated(module):
        marks = {ast.unparse(one).partition("(")[0].removeprefix("pytest.mark."): one for one in decorators}
        if isinstance(fault := marks.get("fault"), ast.Call):
            shown = "".join(f" (*{mark}*)" for mark in _SHOWN if mark in common | marks.keys())
            for number in fault.args:
                found[ast.literal_eval(number)].append(f"`{name}`{shown}")
    return found


def _decorated(module: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """Return each test with its decorators and those of its class, behind whose name it stands."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.decorator_list
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}::{member.name}", [*node.decorator_list, *member.decorator_list]


if __name__ == "__main__":
    PAGE.write_text(with_tests(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
