"""Markdown is read without its markup, and every word stays where it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.documents import text_of, without_markup


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# A title\n\n- one *two* __three__\n> four | five |\n", "A title one two three four five"),
        ("[a link](https://example.org/path_(x) 'title') and ![a picture](a.png)", "a link and a picture"),
        ("[text][id] and [id]\n\n[id]: https://example.org 'title'\n[^1]: a note", "text and id 1 a note"),
        ("see <https://example.org/x> or https://example.org/y, www.example.org.", "see or"),
        ("before `code` and ``more ` code`` after ` alone", "before and after alone"),
        ("```python\nimport os\n```\ntext\n~~~\ncode\n```\n~~~\nmore", "text more"),
        ("```\nnever closed", ""),
        ("````\n```\ncode\n````\ntext", "text"),
        ("- item\n  ```\n  code\n  ```\n  text", "item text"),
        ("```one line``` text", "text"),
        ("---\ntitle: x\n---\ntext\n---\nmore", "text more"),
        ("---\ntext without an end", "text without an end"),
        ("+++\ntitle = 1\n+++\ntext", "text"),
        ("one <b class='x'>two</b> <!-- three\nfour --> five<br>six", "one two five six"),
        ("a &amp; b &#233; c & d", "a b c d"),
        ("a < b and c > d", "a b and c d"),
    ],
)
def test_markup_is_no_text(text: str, words: str) -> None:
    shown = without_markup(text)
    result = "".join(char if char.isalnum() else " " for char in shown)
    assert result.split() == words.split()


@given(text=st.text() | st.text("`~[]()<>!-a&;:^# \n", max_size=60))
def test_what_stays_is_where_it_was(text: str) -> None:
    shown = without_markup(text)
    assert len(shown) == len(text)
    assert all(after in (before, " ") for before, after in zip(text, shown, strict=True))
    assert [place for place, char in enumerate(text) if char in "\n\r"] == [
        place for place, char in enumerate(shown) if char in "\n\r"
    ]


@pytest.mark.parametrize("piece", ["<!--", "`", "``a", "](", "][", "<a", "[a", "&a", "```\n", "www.", "(", "---\n"])
def test_a_long_text_of_one_kind_is_read_in_one_pass(piece: str) -> None:
    # Whatever is tried again at every place would take minutes.
    assert len(without_markup(piece * 100_000)) == len(piece) * 100_000


def test_only_files_named_so_are_markdown() -> None:
    assert text_of(b"`a` b", "x.md") == "    b"
    assert text_of(b"`a` b", "x.txt") == "`a` b"
