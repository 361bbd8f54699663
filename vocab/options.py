"""The options of a list that a request may choose: capitals, layout, numbers, marks, ends of texts, the possessive."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from vocab.errors import OptionsError

Case = Literal["auto", "sentence", "any", "listed"]
Layout = Literal["prose", "lines"]
Punctuation = Literal["standard", "full", "basic", "none"]
End = Literal["word", "sentence"]
Segmentation = Literal["longest", "any"]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options compiled into an artefact and part of its digest.

    Attributes:
        case: Where a listed word may take a capital first letter. ``auto`` is ``any`` for a list that is all lower
            case and ``sentence`` for one that has capitals.
        layout: Where line breaks are allowed: ``prose`` after a sentence mark or a colon, ``lines`` after any word.
        numbers: Whether numbers in digits are allowed as words are.
        punctuation: ``standard``, the marks of the language's printed prose, in pairs where they are pairs
            (``vocab.marks``); ``full``, all marks of ``vocab.marks``; ``basic``, the sentence marks and the
            comma; ``none``.
        end: Where a text may stop: after a whole ``word``, or only after a whole ``sentence`` with its mark.
        segmentation: Of a language written without spaces: every word that ``longest`` match from the left finds in
            the reference dictionary must be listed, or there must be ``any`` way to cut the text into listed words.
        possessive: Whether a listed English word may take 's (``vocab.text.forms``). None, the default, is True for a
            built-in list, and False for a list of one's own.

    Raises:
        OptionsError: The options contradict one another.
    """

    case: Case = "auto"
    layout: Layout = "prose"
    numbers: bool = False
    punctuation: Punctuation = "standard"
    end: End = "word"
    segmentation: Segmentation = "longest"
    possessive: bool | None = None

    def __post_init__(self) -> None:
        if self.end == "sentence" and self.punctuation == "none":
            raise OptionsError("end 'sentence' needs sentence marks: set punctuation to 'standard', 'basic' or 'full'.")

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name; ``segmentation`` and ``possessive`` only where they are not the default."""
        values = asdict(self)
        for name, default in (("segmentation", "longest"), ("possessive", None)):
            if values[name] == default:
                del values[name]
        return values


DEFAULT_OPTIONS: Final = ListOptions()
