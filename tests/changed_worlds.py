"""Small lists with words added and left out, with shared ranks, with entries like numbers, with marks of their own."""

from tests.worlds import WORLDS, World, split

CHANGED_WORLDS = (
    World(
        "names",
        "en",
        split("the|cat|saw|is|London|don't|ana|Will|york|goin'|cats"),
        7,
        split(
            "Ana|ana|the ana|the Ana|the Ana's cat|Ana’s|New York|new York|the New York|New|New york|York|iPhone|"
            "IPhone|the IPhone|the. IPhone|x-ray|X-ray|the X-ray|the x-ray's|O'Neil|o'Neil|O’Neil|O'neil|3M|3m|3M 3|3|"
            "the 3M's|is|Is|the is|IS|is's|don't|don’t|Don't|the cat|The cat|cats|Cats|the cats's|goin'|Goin’ the|"
            "the, Ana. The|will|Will|i.e.|I.e.|i.e|the i.e. cat|the i.e.. The|i.e.\nThe|i.e..\nThe|Dr.|Dr. Ana|Dr. the|"
            "The Dr.|the Dr.."
        ),
        extra_words=("Ana", "New York", "iPhone", "x-ray", "O'Neil", "3M", "cat", "cats", "goin’", "i.e.", "Dr."),
        exclude_words=("IS", "don’t", "will", "unlisted"),
    ),
    World(
        "no words but added ones",
        "fr",
        split("l'|d'|homme|Homme|un"),
        4,
        split(
            "l'Éluard|L'Éluard|L’éluard|éluard|Éluard|l'homme|homme|Homme|l'qu'Éluard|Qu'Éluard|l'Qu'Éluard|qu'|l'|l'3|"
            "l'.|qu’éluard|l'un|un|d'Éluard|Éluard 3|l'élu|élu|Élu|l'Élu"
        ),
        extra_words=("Éluard", "qu'", "élu"),
        exclude_words=("homme",),
    ),
    World(
        "elisions without a word",
        "it",
        split("l'|dell'|un"),
        2,
        split("l'|l'un|dell'un|un|l'3|3|dell'|l"),
        exclude_words=("un",),
    ),
    World(
        "forms of lemmas",
        "en",
        split("the|see|saw|seen|cat|cats|go|went|gone|dog|dogs"),
        4,
        split(
            "the cat|cats|the cats's|saw|See|seen|go|went|Gone|dog|dogs|the dog|the went cats|the goes|"
            "dogs' go|the gone. Go"
        ),
        exclude_words=("SEEN",),
        ranks=(1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5),
    ),
    World(
        "numbers in words",
        "en",
        split("3|3rd|1.5x|a|%|5%|s|.|b 3|3 c|3,|1."),
        12,
        split(
            "3rd|3.rd|1.5x|1.5|1.5 x|5%|5%%|5% %|%%|% %|3 3rd|b 3|b 3.5|b 3 c|3 c|3 3 c|3. c|3,|3,.|3,4|3, 4|3,,|1.|"
            "1..|1.5|1. a|3's|3's a|3rd's|1.5x's|5%'s|b 3's|3.5's|a.|a. .|. .|.|..|a3|a 3.5x|3,3|3,3rd|3,3,|3.3,4|"
            "1.1.|1.1.1"
        ),
        extra_words=("4x", "7", "8.", "9 d"),
    ),
    World(
        "arabic",
        "ar",
        split("في|من|سلام|بيت"),
        3,
        split("في من|في، من|في؟|في؟ من|في؛ من|في.|في؟،|بيت|في سلام|في ؟|في،.|¿في؟"),
        extra_words=("بيت",),
    ),
    World(
        "hindi",
        "hi",
        split("यह|घर|है|और"),
        3,
        split('यह घर है।|यह। घर|यह।|यह ।|और|यह?|यह।\nघर|यह॥|यह।"|यह।,|यह, घर'),
        exclude_words=("घर",),
    ),
)

ALL_WORLDS = (*WORLDS, *CHANGED_WORLDS)
