"""What a request may choose about its list, apart from the list itself and N."""

from dataclasses import asdict, dataclass
from typing import Literal

Case = Literal["auto", "sentence", "any", "listed"]
Layout = Literal["prose", "lines"]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options that change which texts a list allows; part of the artefact's digest.

    Attributes:
        case: Where a listed word may take a capital first letter. ``auto`` is ``any`` for a list that is all lower
            case and ``sentence`` for one that has capitals.
        layout: Where line breaks are allowed: ``prose`` after a sentence mark or a colon, ``lines`` after any word.
    """

    case: Case = "auto"
    layout: Layout = "prose"

    def as_dict(self) -> dict[str, str]:
        return asdict(self)
