"""The page on reliability names every fault once, and for each the tests that are marked with it, or what it lacks."""

import re
from typing import Final

import pytest

from tests.pages import ROOT
from tools.docs.faults import names_by_fault, with_tests

PAGE: Final = (ROOT / "docs" / "reliability.md").read_text()
ROWS: Final = {
    int(number): [cell.strip() for cell in cells.split(" | ")]
    for number, cells in re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
}


def test_every_fault_has_one_row() -> None:
    numbers = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 1 + max(ROWS))]
    assert all(len(cells) == 4 and all(cells) for cells in ROWS.values())


def test_every_row_names_the_tests_that_are_marked_with_it() -> None:
    assert with_tests(PAGE) == PAGE, "run python -m tools.docs.faults, and commit docs/reliability.md"


def test_a_row_without_tests_says_what_else_shows_it() -> None:
    untested = [without for *_, without, tests in ROWS.values() if tests == "–"]
    assert [without for without in untested if not re.search(r"`(make \w+|python -m benchmarks)", without)] == []


def test_marks_are_read_with_those_of_the_class_and_of_the_file() -> None:
    source = """
pytestmark = [pytest.mark.e2e, pytest.mark.slow]
@pytest.mark.fault(3, 5)
def test_a(): ...
def test_b(): ...
@pytest.mark.stress
class TestC:
    @pytest.mark.fault(5)
    async def test_d(self): ...
"""
    assert names_by_fault(source) == {
        3: ["`test_a` (*slow*)"],
        5: ["`test_a` (*slow*)", "`TestC::test_d` (*slow*) (*stress*)"],
    }
    with pytest.raises(ValueError, match=r"fault\(\d+\), and reliability.md has no such row"):
        with_tests("| 1 | what | answer | – | – |")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`python -m benchmarks (\w+(?: \w+)?)", PAGE))))
def test_every_benchmark_that_is_named_exists(name: str) -> None:
    assert (ROOT / "benchmarks" / f"{name.replace(' ', '/')}.py").is_file()
