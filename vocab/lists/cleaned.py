"""The cleaned lists of languages: wordfreq's entries, less what is no word of the language, with their capitals.

The package has, per language, a file of differences from wordfreq's list, made by ``tools.lists``: a verdict on each
entry in wordfreq's order, spellings that no verdict says, and words that wordfreq lacks.
"""

import hashlib
import json
import lzma
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from vocab.errors import InvalidWordListError

FOLDER: Final = Path(__file__).with_name("data")

AS_IT_IS: Final = "."
LEFT_OUT: Final = "-"
CAPITAL: Final = "T"
CAPITALS: Final = "U"
RESPELLED: Final = "R"
"""The verdicts: an entry counts as it is, not at all, with a capital first letter, in capitals, or as ``respelled``."""

DOTTED_I_LANGUAGES: Final = frozenset({"tr", "az"})
"""The capital of i is İ, and that of ı is I."""

IJ_LANGUAGES: Final = frozenset({"nl"})
"""At the beginning of a word ij is one letter, whose capital is IJ: "IJs"."""


@dataclass(frozen=True)
class Differences:
    """How a language's cleaned list differs from wordfreq's.

    Attributes:
        raw_digest: ``digest_of`` wordfreq's entries: verdicts on another list would be nonsense.
        verdicts: One character for each of them.
        respelled: The spellings of the entries with verdict ``RESPELLED``, in their order.
        added: More words, each with the number of wordfreq's entries that stand before it; in their order.
        unsafe: Words that a list for everybody leaves out, as they are spelled in this list.
    """

    raw_digest: str
    verdicts: str
    respelled: tuple[str, ...]
    added: tuple[tuple[int, str], ...]
    unsafe: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Serialize the differences as compressed JSON."""
        text = json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))
        return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Deserialize the differences that ``to_bytes`` wrote."""
        values = json.loads(lzma.decompress(data))
        return cls(
            values["raw_digest"],
            values["verdicts"],
            tuple(values["respelled"]),
            tuple((place, word) for place, word in values["added"]),
            tuple(values["unsafe"]),
        )

    def apply(self, raw: Sequence[str], lang: str, *, safe: bool) -> tuple[str, ...]:
        """Return the words of the cleaned list: wordfreq's entries with these differences.

        Args:
            raw: wordfreq's entries that are words, in its order, without duplicates.
            lang: Their language, which decides the capital of "i".
            safe: Whether to leave out ``unsafe``.

        Raises:
            InvalidWordListError: These are not the entries that the differences were made for.
        """
        if digest_of(raw) != self.raw_digest:
            raise InvalidWordListError(
                f"The cleaned list {lang!r} was made for another version of wordfreq than the one installed. Install "
                "the version that constraints-cpu.txt names, or ask for the raw list by 'source': 'wordfreq'."
            )
        left_out = frozenset(self.unsafe) if safe else frozenset()
        return tuple(word for word in dict.fromkeys(self._words(raw, lang)) if word not in left_out)

    def _words(self, raw: Sequence[str], lang: str) -> Iterator[str]:
        respelled, added = iter(self.respelled), iter((*self.added, (len(raw), "")))
        place, word = next(added)
        for index, (entry, verdict) in enumerate(zip(raw, self.verdicts, strict=True)):
            while place == index:
                yield word
                place, word = next(added)
            if verdict == AS_IT_IS:
                yield entry
            elif verdict == CAPITAL:
                yield titlecase(entry, lang)
            elif verdict == CAPITALS:
                yield uppercase(entry, lang)
            elif verdict == RESPELLED:
                yield next(respelled)
        yield from (word for place, word in self.added if place >= len(raw))


def differences_of(lang: str) -> Differences | None:
    """Load the differences of a language's cleaned list; None for a language whose list is wordfreq's."""
    # Looked up in the folder's listing: no name is joined to a path that is not there.
    return Differences.from_bytes((FOLDER / f"{lang}.xz").read_bytes()) if lang in cleaned_languages() else None


def cleaned_languages() -> list[str]:
    """Return the languages that have a cleaned list, sorted."""
    return sorted(file.stem for file in FOLDER.glob("*.xz"))


def digest_of(raw: Sequence[str]) -> str:
    """Return the first 16 hex digits of the sha256 of a list's words."""
    return hashlib.sha256("\n".join(raw).encode()).hexdigest()[:16]


def titlecase(word: str, lang: str) -> str:
    """Return the word with a capital first letter, by the rules of its language."""
    if lang in IJ_LANGUAGES and word.startswith("ij"):
        return "IJ" + word[2:]
    return unicodedata.normalize("NFC", uppercase(word[0], lang)[:1] + word[1:])


def uppercase(word: str, lang: str) -> str:
    """Return the word in capitals, by the rules of its language."""
    return (word.replace("i", "İ") if lang in DOTTED_I_LANGUAGES else word).upper()


def lowercase(word: str, lang: str) -> str:
    """Return the word in small letters, by the rules of its language; Dutch "Ij" is no capital of ij, and stays."""
    if lang in IJ_LANGUAGES and word.startswith("Ij"):
        return "Ij" + word[2:].lower()
    return (word.replace("İ", "i").replace("I", "ı") if lang in DOTTED_I_LANGUAGES else word).lower()
