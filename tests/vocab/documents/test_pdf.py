"""The lines of a PDF are put together to sentences and words."""

import time
from collections.abc import Sequence

import pytest

from vocab.documents.pdf import join_lines


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], ""),
        (["  ", ""], ""),
        (["the cat sat on the", "mat. The dog", "barked."], "the cat sat on the mat. The dog barked."),
        (
            ["the cat sat on the mat.", "The dog barked at the cat"],
            "the cat sat on the mat.\nThe dog barked at the cat",
        ),
        (["A title", "", "the cat sat on the mat and slept"], "A title\nthe cat sat on the mat and slept"),
        (["the cat was under-", "standing all of it"], "the cat was understanding all of it"),
        (["the soft hy\u00ad", "phen of a cat"], "the soft hyphen of a cat"),
        (["the mother-in-", "law of the cat was"], "the mother-in-law of the cat was"),
        (["a well-known cat, and a well-", "known dog there"], "a well-known cat, and a well-known dog there"),
        (
            ["it was wellknown and well-known, well-", "known of old"],
            "it was wellknown and well-known, wellknown of old",
        ),
        (["from Stratford-", "Upon-Avon to London"], "from Stratford- Upon-Avon to London"),
        (["in the years 1914-", "1918 there was war"], "in the years 1914- 1918 there was war"),
    ],
)
def test_lines_are_put_together(lines: Sequence[str], expected: str) -> None:
    assert join_lines(lines) == expected


def test_a_line_without_blanks_is_read_in_one_pass() -> None:
    begun = time.process_time()
    line = "a" * 100_000
    assert join_lines([line, "cat"]) == f"{line} cat"
    # From each letter on, it was many minutes.
    assert time.process_time() - begun < 30
