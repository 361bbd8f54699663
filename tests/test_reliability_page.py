"""The page on reliability names every fault once, and for each a test that exists, or why there is none."""

import ast
import re
from functools import cache
from typing import Final

import pytest

from tests.pages import ROOT

PAGE: Final = (ROOT / "docs" / "reliability.md").read_text()
ROWS: Final = {
    int(number): [cell.strip() for cell in cells.split(" | ")]
    for number, cells in re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
}
TESTS: Final = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`(?: \(\*(slow|stress)\*)?", PAGE)))


def test_every_fault_has_one_row() -> None:
    numbers = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 1 + max(ROWS))]
    assert all(len(cells) == 3 for cells in ROWS.values())


@pytest.mark.parametrize("number", ROWS)
def test_every_row_says_what_shows_it_or_why_nothing_does(number: int) -> None:
    shown = ROWS[number][-1]
    assert re.match(r"`tests/[\w/]+\.py::|`(make \w+|python -m benchmarks \w+)|none: \w", shown)


@pytest.mark.parametrize(("file", "name", "mark"), TESTS, ids=[f"{file}::{name}" for file, name, _ in TESTS])
def test_every_test_that_is_named_exists(file: str, name: str, mark: str) -> None:
    assert (ROOT / file).is_file()
    assert name in names_of(file)
    assert not mark or f"pytest.mark.{mark}" in (ROOT / file).read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`python -m benchmarks (\w+(?: \w+)?)", PAGE))))
def test_every_benchmark_that_is_named_exists(name: str) -> None:
    assert (ROOT / "benchmarks" / f"{name.replace(' ', '/')}.py").is_file()


@cache
def names_of(file: str) -> frozenset[str]:
    """Return the tests of a file, those of a class behind its name."""
    result = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        prefix, members = (f"{node.name}::", node.body) if isinstance(node, ast.ClassDef) else ("", [node])
        result |= {prefix + one.name for one in members if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return frozenset(result)
