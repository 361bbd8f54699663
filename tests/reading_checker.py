"""A reader of texts that a person would wince at: names and German nouns in small letters, single letters that are no
words, and fragments of words.

It knows a few hundred words by heart, chosen without the library's lists, and imports nothing of it.
"""

import re
from typing import Final

LETTERS: Final = {"en": "aI", "de": "", "es": "aeouy", "fr": "aàyô"}
"""Words of one letter. French elisions stand before an apostrophe and are no letters by themselves."""

_NAMES: Final = {
    "en": """London Paris England America Canada Michael David John Mary Robert Peter James Charles George Elizabeth
        Texas California Chicago Boston Europe Africa Asia Japan Germany Italy Spain Russia India Monday Tuesday
        Wednesday Thursday Friday Saturday Sunday January February April July September October November December
        English British American Chinese Japanese German Spanish Italian Indian Irish Scottish Christmas Obama
        Washington Shakespeare Oxford Cambridge Google Facebook Jesus Christian Jewish Islam Mr Mrs Dr""",
    "de": """Berlin Hamburg München Köln Frankfurt Deutschland Österreich Schweiz Europa Amerika Michael Peter Thomas
        Anna Maria Karl Hans Martin Andreas Merkel Goethe London Paris Rom Wien Zürich Bayern Sachsen Hessen
        Russland China Japan Italien Frankreich England Polen Rhein Donau Montag Dienstag Mittwoch Donnerstag
        Freitag Samstag Sonntag Januar Februar März April Mai Juni Juli August September Oktober November Dezember
        Weihnachten Haus Zeit Mann Frau Kind Kinder Jahr Jahre Tag Tage Woche Monat Stadt Land Welt Wasser Hand
        Auge Augen Kopf Herz Mensch Menschen Leute Freund Freunde Familie Mutter Vater Bruder Schwester Sohn
        Tochter Straße Schule Buch Bücher Wort Worte Sprache Geschichte Frage Antwort Problem Grund Beispiel Teil
        Seite Anfang Ende Geld Preis Firma Polizei Regierung Staat Krieg Frieden Liebe Angst Glück Musik Bild Film
        Spiel Spieler Mannschaft Verein Tisch Stuhl Tür Fenster Zimmer Wohnung Garten Baum Blume Hund Katze Pferd
        Vogel Fisch Fleisch Brot Milch Bier Wein Auto Zug Bahn Flugzeug Schiff Platz Berg Fluss Meer Sonne Mond
        Stern Himmel Erde Luft Feuer Licht Nacht Abend Minute Stunde Uhr Zahl Gesetz Freiheit Wahrheit
        Gesellschaft Wirtschaft Wissenschaft Universität Student Lehrer Arzt Krankenhaus Gesundheit Körper Gesicht
        Stimme Traum Gedanke Idee Meinung Interesse Möglichkeit Entwicklung""",
    "es": """Madrid Barcelona España México Argentina Chile Perú Colombia Venezuela Cuba Europa África Asia Francia
        Italia Alemania Inglaterra Rusia China Japón Brasil Portugal Londres París Roma York Juan José María
        Carlos Luis Pedro Miguel Antonio Francisco Manuel Javier David Pablo Ana García López Martínez Rodríguez
        Pérez Fernández González Sánchez Jesús Cervantes Sevilla Andalucía Cataluña Google Facebook""",
    "fr": """Paris Lyon Marseille Bordeaux Toulouse Lille France Europe Afrique Asie Allemagne Italie Espagne
        Angleterre Belgique Suisse Canada Québec Chine Japon Russie Londres Rome Berlin Madrid Bruxelles Jean
        Jacques Paul Michel François Nicolas Philippe Louis Charles David Sarah Sophie Catherine Isabelle Macron
        Sarkozy Hollande Napoléon Noël Google Facebook Bretagne Normandie Alsace""",
}  # fmt: skip
NAMES: Final = {lang: frozenset(names.lower().split()) for lang, names in _NAMES.items()}

_FRAGMENTS: Final = {
    "en": "ve ll th nd rd didn doesn isn wasn couldn wouldn shouldn hasn hadn aren weren ain im ive dont cant thats",
    "de": "nen nem ner th nd bzw jährige jährigen ggf bspw inkl",
    "es": "th nd rd xd tb pq xq",
    "fr": "th nd cest jai etait etais meme jsuis",
}
_WEB: Final = "http https www com html php lol lmao rofl omg wtf amp nbsp gt url jpg xxx"
FRAGMENTS: Final = {lang: frozenset(f"{words} {_WEB}".split()) for lang, words in _FRAGMENTS.items()}
"""With what only web pages and chats have."""

_ABBREVIATIONS: Final = {
    "en": "e.g.|i.e.",
    "de": "z. B.|d. h.|u. a.|o. ä.|i. d. R.|v. a.|bzw.|ggf.|bspw.|inkl.",
    "es": "D.|p. ej.|a. C.|d. C.",
    "fr": "M.|p. ex.",
}
_ABBREVIATED: Final = {
    lang: re.compile(rf"(?<![\w'’])(?:{re.escape(words).replace(re.escape('|'), '|')})")
    for lang, words in _ABBREVIATIONS.items()
}
"""With their full stops they are words of a book, though their letters are none."""

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*['’]?")


def reading_faults(text: str, lang: str) -> list[str]:
    """Return the words of a text that are written as no book would, in their order."""
    text = _ABBREVIATED[lang].sub("", text)
    return [word for word in _WORD.findall(text) if _is_fault(word.rstrip("'’") if lang != "fr" else word, lang)]


def _is_fault(word: str, lang: str) -> bool:
    if len(word) == 1:
        return word not in LETTERS[lang] and word.lower() not in LETTERS[lang]
    return word in NAMES[lang] or word.lower() in FRAGMENTS[lang]
