"""Cells that a spreadsheet would compute are marked, and read again as they were."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from vocab.csv_cells import read_cell, write_csv

CELLS = st.text("=+-@'\t\r\na,\"＝", max_size=6) | st.text(max_size=6)


@given(st.lists(CELLS.filter(lambda cell: "\0" not in cell), min_size=1, max_size=4))
def test_a_table_is_read_again_as_it_was_and_has_no_formula(cells: list[str]) -> None:
    [row] = csv.reader(io.StringIO(write_csv([cells]), newline=""))
    assert [read_cell(cell) for cell in row] == cells
    assert not any(cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) for cell in row)


def test_numbers_are_no_texts() -> None:
    assert write_csv([(-1, None, "a")]) == "-1,,a\n"
