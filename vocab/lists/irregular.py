"""Irregular forms of English, German and Spanish words that simplemma lacks, or gives to another word."""

from functools import cache
from typing import Final

_FORMS: Final = {
    "en": """
        be am is are was were been being|bend bent|bind bound|bite bit|break broke|drink drunk|feel felt|
        go gone went|grind ground|leave left|ring rung|rise rose|shake shook|shoot shot|smell smelt|spell spelt|
        swear swore|think thought|win won|wind wound|person people|life lives|wife wives|leaf leaves|half halves|
        shelf shelves|thief thieves|bad worse|far further furthest|little less least|much more most|many more most|
        I me my mine myself|he him his himself|she her hers herself|we us our ours ourselves|
        they them their theirs themselves|can could|will would|shall should|may might
    """,
    "de": """
        sein bin bist ist sind seid war gewesen|backen gebacken|befehlen befohlen|beißen biss bissen gebissen|
        bergen geborgen|biegen gebogen|bieten geboten|blasen geblasen|braten gebraten|brechen brach brachen|
        denken gedacht|essen gegessen|fahren gefahren|fallen gefallen fällt|fangen gefangen|fließen floss flossen|
        frieren gefroren|genießen genoss|gießen goss gegossen|kriechen gekrochen|messen maß misst|raten geraten|
        reißen riss rissen|rennen gerannt|stehen stand standen gestanden|verlieren verloren|ich mein|du dein|sie ihr|
        wir unser|ihr euer|wer wessen|viel mehr|gut beste besten|gern lieber liebsten|hoch höchste höchsten|
        nah näher nächste nächsten
    """,
    "es": """
        bueno buena buenos buenas|malo mala malos malas|primero primera primeros primeras|tercero tercera|
        alguno alguna algunos algunas|ninguno ninguna|grande grandes gran|ciento cien
    """,
}  # fmt: skip


def irregular_forms(word: str, language: str) -> frozenset[str]:
    """Return the forms of a word that simplemma lacks; none of other languages than these."""
    return _by_word(language).get(word, frozenset())


@cache
def _by_word(language: str) -> dict[str, frozenset[str]]:
    rows = (row.split() for row in _FORMS.get(language, "").split("|") if row.strip())
    return {word: frozenset(forms) for word, *forms in rows}
