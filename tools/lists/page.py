"""The table of counts.md: per language how many words there are, and what was left out."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parent / "counts.md"
BEGIN: Final = "<!-- built by tools.lists -->\n"
END: Final = "<!-- end -->\n"
_HEAD: Final = (
    "| list | words | of | left out: not known | junk and fragments | letters, other scripts | acronyms "
    "| with a capital | both ways | added | not `safe` | such as |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True)
class Row:
    """What was built of one language, of which its list has ``num_words``, and ``num_unsafe`` besides.

    ``examples`` are the entries left out, by reason, the most frequent first.
    """

    language: str
    num_raw: int
    num_added: int
    num_words: int
    num_unsafe: int
    num_bytes: int
    reasons: Counter[str]
    examples: dict[str, list[str]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "language": self.language,
            "raw": self.num_raw,
            "words": self.num_words,
            "bytes": self.num_bytes,
            "reasons": dict(self.reasons),
            "added": self.num_added,
            "unsafe": self.num_unsafe,
        }

    def line(self) -> str:
        """Return the row of the table."""
        reasons = self.reasons
        shown = [word for reason in ("unknown", "junk") for word in self.examples.get(reason, ())[:4]]
        cells = [
            self.language, f"{self.num_words:,}", f"{self.num_raw:,}", f"{reasons['unknown']:,}",
            f"{reasons['junk'] + reasons['apostrophe']:,}", f"{reasons['letter'] + reasons['script']:,}",
            f"{reasons['unread acronym']:,}", f"{reasons['capital']:,}", f"{reasons['both']:,}",
            f"{self.num_added - reasons['both']:,}",
            f"{self.num_unsafe:,}", " ".join(f"`{word}`" for word in shown),
        ]  # fmt: skip
        return "| " + " | ".join(cells) + " |\n"


def write_table(row: Row) -> None:
    """Put the row in its place in the table."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines(keepends=True)[2:]} | {
        row.language: row.line()
    }
    built = _HEAD + "".join(rows[language] for language in sorted(rows))
    PAGE.write_text(before + BEGIN + built + END + after, encoding="utf-8")
