"""Language tags (BCP 47): which lists a tag such as "en-US", "zh-TW" or "no" may mean.

A tag is a language, and perhaps a script and a region, joined by hyphens, in any capitals. What names no script of a
list and no region in use is no tag: "en-kids" and "en-500" are names of list files, and no part of them is left out.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TAG: Final = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|[0-9]{3}))?", re.ASCII | re.IGNORECASE)

RENAMED: Final = {"in": "id", "iw": "he", "mo": "ro", "no": "nb", "tl": "fil"}
"""Other codes of languages that have a list. Norwegian is Bokmål: there is no list of Nynorsk (nn)."""

RELATIVES: Final = {**RENAMED, "bs": "sh", "cnr": "sh", "hr": "sh", "sr": "sh"}
"""The list of a language under another code. Serbo-Croatian has one, in Latin letters."""

TRADITIONAL: Final = frozenset({"TW", "HK", "MO"})
"""Where Chinese is written in traditional characters, if no script is named."""

_LISTS_IN_SCRIPT: Final = {
    "Arab": "ar fa ur",
    "Beng": "bn",
    "Cyrl": "bg mk ru uk",
    "Deva": "hi",
    "Grek": "el",
    "Hang": "ko",
    "Hans": "zh",
    "Hant": "zh-Hant",
    "Hebr": "he",
    "Jpan": "ja",
    "Kore": "ko",
    "Latn": "ca cs da de en es fi fil fr hu id is it lt lv ms nb nl pl pt ro sh sk sl sv tr vi",
    "Taml": "ta",
    "Thai": "th",
}
"""The built-in lists, by the scripts of ISO 15924 that they are written in."""

_REGIONS: Final = (
    "AC AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY "
    "BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DG DJ DK DM DO DZ EA EC EE EG EH ER ES ET EU FI "
    "FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU IC ID IE IL IM IN IO "
    "IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH "
    "MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM "
    "PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG "
    "TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UK UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW "
    "001 002 003 005 009 011 013 014 015 017 018 019 021 029 030 034 035 039 053 054 057 061 142 143 145 150 151 154 "
    "155 202 419"
)
"""Countries of ISO 3166 and of the CLDR, "UK", and the areas of UN M.49: 419 is Latin America."""


class Tag(NamedTuple):
    """A language tag, each part in its usual capitals: "sr", "Latn", "RS"."""

    language: str
    script: str | None
    region: str | None

    def __str__(self) -> str:
        return "-".join(filter(None, self))

    def lists(self) -> Iterator[str]:
        """Yield the names of the lists that it may mean, best first: its own, and those without the region."""
        language, script, region = self
        if language == "zh" and script is None and region in TRADITIONAL:
            script = "Hant"
        yield str(self)
        relative = RELATIVES.get(language, language)
        if script is None:
            yield language
            yield relative
        else:
            yield f"{language}-{script}"
            # A list file does not say its script, so one of the bare language is not what was asked for.
            if relative in _LISTS_IN_SCRIPT[script].split():
                yield relative


def read_tag(name: str) -> Tag | None:
    """Read a language tag in any capitals; None for any other name."""
    match = _TAG.fullmatch(name)
    if match is None:
        return None
    language, script, region = match.groups()
    tag = Tag(language.lower(), script and script.title(), region and region.upper())
    is_known = tag.script in (None, *_LISTS_IN_SCRIPT) and (tag.region is None or tag.region in _REGIONS.split())
    return tag if is_known else None
