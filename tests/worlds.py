"""Small lists, each with the texts that are hardest to judge, for tests against the recogniser."""

from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st

from tests.choices import Choice
from tests.recogniser import (
    CLOSE_MARKS,
    DASH_GAPS,
    LINE_BREAK_GAPS,
    OPEN_MARKS,
    Case,
    End,
    Layout,
    Punctuation,
    Recogniser,
)

_GAPS = (" ", " ", *DASH_GAPS, *LINE_BREAK_GAPS)
_NOISE = (" ", "\n", "—", "-", "'", "’", "s", "'s", "’s", "x", "0", "%", *CLOSE_MARKS, *OPEN_MARKS)
_PAIRS = ("()", '""', "“”", "«»", "„“", "””")
_MARKS = ("", "", "", ".", ".", ",", ":", "?", "...", "…", "?!", "..", ";", "؟")
_SPACES = st.sampled_from((" ", " ", " ", "\n", "—", " - "))
_NUMBERS = ("3", "3.5", "1,000", "10:30", "50%", "1.2.3%", "1234567890123456")


@dataclass(frozen=True)
class World:
    """A list and N, and perhaps changes to it, with texts made for it."""

    name: str
    lang: str
    words: tuple[str, ...]
    n_words: int
    texts: tuple[str, ...]
    extra_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()
    ranks: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return self.name

    def judge(self, choice: Choice) -> Recogniser:
        return _judge(self, **choice)

    def hand_picked_texts(self) -> tuple[str, ...]:
        """Those made for this list, those made for none, and every kind of end behind a word of this list."""
        words = [word for word in (*self.words[: self.n_words], *self.extra_words) if word[-1] not in "'’"][:2]
        paired = [text.replace("@", word) for word in words for text in _PAIRED]
        return (*TEXTS_OF_NO_LIST, *self.texts, *(word + end for word in words for end in _ENDS), *paired)

    def likely_texts(self) -> st.SearchStrategy[str]:
        """Strings of which many are texts, many the beginnings of texts, and many just miss being either."""
        listed = st.sampled_from((*self.words[: self.n_words], *self.extra_words))
        # An elision is joined to a word more often than not.
        unit = st.one_of(listed, listed.map(_with_capital), st.tuples(listed, listed).map(_joined_by_apostrophe))
        unit |= st.sampled_from((*_NUMBERS, *self.exclude_words))
        part = st.tuples(
            st.just("") | st.text(OPEN_MARKS, max_size=2),
            unit,
            st.just("") | st.sampled_from([".", ",", ":", '."']) | st.text(CLOSE_MARKS, max_size=4),
            st.sampled_from(_GAPS),
        )
        parts = st.lists(part, min_size=1, max_size=4).map(lambda parts: "".join("".join(part) for part in parts)[:-1])
        paired_part = st.tuples(
            st.lists(st.sampled_from(_PAIRS), max_size=2), unit, st.sampled_from(_MARKS), st.integers(0, 3), _SPACES
        )
        paired = st.lists(paired_part, min_size=1, max_size=4).map(_with_pairs)
        either = parts | paired
        return st.one_of(
            parts, paired, st.tuples(either, st.integers(0, 40), st.sampled_from(("", *_NOISE))).map(_damaged)
        )


@cache
def _judge(
    world: World, case: Case, layout: Layout, numbers: bool, punctuation: Punctuation, end: End, possessive: bool
) -> Recogniser:
    return Recogniser(
        world.words,
        world.n_words,
        world.lang,
        case,
        layout,
        numbers=numbers,
        punctuation=punctuation,
        end=end,
        extra_words=world.extra_words,
        exclude_words=world.exclude_words,
        ranks=world.ranks,
        possessive=possessive,
    )


def _with_capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _with_pairs(parts: list[tuple[list[str], str, str, int, str]]) -> str:
    """Opens and closes pairs, mostly as they were opened; what is still open at the end is closed there."""
    text, still_open = "", list[str]()
    for pairs, unit, mark, num_closed, space in parts:
        text += "".join(pair[0] for pair in pairs) + unit
        still_open += [pair[1] for pair in pairs]
        closing = "".join(still_open.pop() for _ in range(min(num_closed, len(still_open))))
        text += (mark + closing if num_closed % 2 else closing + mark) + space
    return text[:-1] + "".join(reversed(still_open))


def _joined_by_apostrophe(words: tuple[str, str]) -> str:
    return words[0] + words[1] if words[0][-1] in "'’" else words[0]


def _damaged(damage: tuple[str, int, str]) -> str:
    """Cuts the text at a place, or puts a character there."""
    text, place, insert = damage
    return text[:place] + insert + text[place:] if insert else text[:place]


def split(texts: str) -> tuple[str, ...]:
    return tuple(texts.split("|"))


TEXTS_OF_NO_LIST = (
    *split("| |  |\n|.|(|—| —|——|———|zzz|. |\n\n|…|\x00|\t"),
    *split(
        "3|3.|3.5|3.5.|3..|3,|3, 4|1,000|10:30|10:30:00.5%|50%|%|%3|3%%|3%.|3% 4|(3)|¿3|«3»|3.)|3.\n4|3:\n4|3\n4|3—4|"
        "3 - 4| 3|  3|3 |3's|3’s|3a|3.a|3 . 4|٣|3٣|½|3,.4|3.,|1234567890123456|12345678901234567|1234567890123456.|"
        "1234567890123456%|123456789012345%|123456789012345.|123456789012345.6|12345678901234.5|12345678901234.56|"
        "12345678901234.5%|1.2.3.4.5.6.7.8|1.2.3.4.5.6.7.89|1.2.3.4.5.6.7.8.|1.2.3.4.5.6.7.8.9|12345678901234,5 6"
    ),
)
"""Texts, or beginnings, that need no word."""

_ENDS = split(
    '|.|!|?|…|,|:|;|."|.)|.”|".|).|.,|.:|.;|,.|:.|.,.|?!|?!")|...|....|.....|...")|.)]"|.)]"»|«|.«|.—| —|. | |.\n|\n|'
    " 3|3| 3.| 3%|. 3|.3|-3|—3|'s|'s.|'s 3|' 3|؟|،|؟،|،؟|।|।\"|؛|.؛| ¿3|¡| ¡3!|.\n\n3.|?\n3"
)
"""What may be tried behind a word: marks that end a sentence and marks that do not, and numbers."""

_PAIRED = split(
    '"@?", @|"@?",|"@.", @|"@?": @|"@?".|("@?", @)|("@?",) @|("@?"),|"@?",.|"@?"!|"@?",\n@|(@!); @|"@", (@?), @|'
    '"@?", "@"|("@?,")|'
    '"@"|"@" @|@ "@".|@ "@."|"@.".|"@".|"@,".|"@", @|"@," @|"@|@"|"@" "@"|" @"|"@ "|""@|@ ""|"(@)"|("@")|'
    '(("@"))|"(@"|'
    '"(@)|"@ (@"|(@ "@) @"|("@. @" @)|("@. @". @)|"@. @\n\n@"|(@:\n@)|(“"@"”)|“@”|“@ ‘@’”|«@»|«@. @ “@”»|„@“|'
    "„@”|»@«|”@”|‹@›|"
    '[@]|(@)@|@(@)|@"@|"@"@"|@—"@"|@ - (@)|"@"—@|"@" — @.|("@).|@ ("@")|@ ("@."). @|@..|@...|@....|@. ..|@?...|'
    "@!?|@?!|@??|@!!|"
    "@?!?|@.,|@,.|@,,|@;|@;:|@ .|@ ,|@ !|@…|@….|@...”|@?!) @|(@?!) @|(@...)|(@..)|(@).|(@.)|(@.).|(@,).|(@),|"
    "(@): @|(@:)\n@|"
    "¿@?|¿¡@!?|¡¿@|¿¿@|¿¡¿@|¿(@)?|(¿@?)|¿(¿@?)|“¿@”|(3)|(3.|(3.)|(3.5)|“3”. @|(@\n@)|(@.\n@)|(@) (@)|(@)—(@)|()|"
    "( @)|(@ )|—@|@ —@|"
    "@۔|@ (@۔)|@;|@; @|(@;) @|@;!|@·|@ – @|@ — @|@—@|@ - @|@-"
)
"""Marks in pairs, whole and broken, around a word written @."""

WORLDS = (
    World(
        "english",
        "en",
        split("the|cat|in|don't|front|in front of|well-known|i|well|goin'|catalogue|of"),
        10,
        split(
            "the cat|The cat| the|  the|the  cat|the cat |the cat.|the. Cat|the cata|catalogue|of|in front of|"
            "in front of's|in front cat|in front in|in front|front of|the cat's|the cat’s|Cat's|don't|don’t|"
            "Don't|don't's|well-known|well-|well - known|well—i|well — i|well – i|well – —i|well —i|well—|"
            "goin'|goin’ in|goin's|goin' |the.... i|the..... i|the?!\" I|the\n|the\nI|the.\nI|the.\n\nI|"
            "the.\n\n\nI|the:\nI|the,\nI|the.) \nI|the.)\nI|the:)\nI|((the|(((the|the ((cat|the (((cat|"
            'the. ("Cat|the: Cat|the—Cat|the.—Cat|the. —Cat|the.\n—Cat|the — —cat|the — — —cat|I|THE|the) cat|'
            "the)(cat"
        ),
    ),
    World(
        "words that take no possessive",
        "en",
        split("the|It|it's|of|she|cat|out of|of it|other|go|Will|a b|IT|who's|else|us|I"),
        16,
        split(
            "the's|The's|the’s cat|it's|It's|It’s|it’s|IT's|of's|out of's|Of it's|of its|out's|she's|She's|She|cat's|"
            "Cat’s|other's|Other's|go's|Go's|Will's|will's|a b's|A b's|who's|who's's|Who’s|who|else's|us's|Us's|us'|"
            "I's|it's's|it' s|the 's|the.'s|the'|cat'|cat' s|cat's's|cat's.|cat.'s"
        ),
    ),
    World(
        "with capitals",
        "en",
        split("London|is|will|Will|McDonald|the Thames|o'clock|london"),
        6,
        split(
            "London is|london|Is London|is. Is|is Is|is, Is|is: Is|is:\nIs|is. (Is|is.) Is|is—Is|is. - Is|"
            "is - Is|Will|is Will|is will|The Thames|is The Thames|is the Thames|LOndon|(Is|is (Is|is! «Is| Is|"
            " (Is|is.' Is|London's Is|O'clock|is o'clock|is.\n\n—Is"
        ),
    ),
    World(
        "french",
        "fr",
        split("l'|homme|un|l'un|aujourd'hui|d’|Été|à|«|quelqu'un|île"),
        10,
        split(
            "l'homme|L'homme|l'Homme|l’homme|l'|l' homme|l'.|l'un|L'un|l'd'un|L'D'un|l'd'|un l'un|un L'un|"
            "un. L'un|un. l'Un|un. L'Un|l'Été|été|à l'été|À l'un|l'(un|«un»|« un »|un «|« à|aujourd'hui|"
            "aujourd’hui|quelqu'un|l'«|l'« un|un « un|l'île|un—l'un"
        ),
    ),
    World(
        "turkish",
        "tr",
        split("ılık|iğne|i|ı|istanbul'da|İzmir|izmir"),
        6,
        split(
            "İğne|Iğne|Ilık|İlık|i ı|İ I|İstanbul'da|Istanbul'da|istanbul’da|i. İğne|i. Ilık|i İğne|İzmir|izmir|Izmir"
        ),
    ),
    World(
        "dutch",
        "nl",
        split("ijs|ij|IJsland|i|j|bij|ijl's|ij́|Ijs"),
        7,
        split(
            "IJs|Ijs|ijs|iJs|IJS|ijs IJs|ijs. IJs|ijs. Ijs|IJ|Ij|IJl’s|Ijl's|IJsland|ijsland|Ijsland|IJ́|Ij́|i. I|"
            "Bij ijs|J ij|bIJ|“IJs”|(IJs|ijs—IJs"
        ),
    ),
    World(
        "spanish",
        "es",
        split("difícil|qué|él|niño|es|sí|a|pingüino|eso"),
        8,
        split(
            "¿Qué es?|¿qué es?|¡Él!|¿¡qué!?|¿¡¿qué|es difícil|es dificil|es di\u0301|difi\u0301cil|Es|a|eso|"
            "es—a|a: ¿qué?|a. ¿Qué?|«es»|“es”|„es“|‹es›|pingüino|Ñiño"
        ),
    ),
    World(
        "every character counts",
        "xx",
        split("a\"b|a\\b|[x]|x]-^|it's'|'|-|--|…|(|c++|3|#1|a b|b a|a|b|½|ß|ǆ|日本"),
        21,
        split(
            "a\"b|a\"b\"|a\\b|[x]|[[x]]|x]-^|it's'|it’s’|it's’|'|’|-|a - b|a - - b|--|-—-|…|….|(|((|(((|((((|"
            'c++|3 3|#1|a b a|b a b|a  b|ß|ẞ|ǅ|Ǆ|日本|a\nb|- - -| - | -|- |— -|A"b'
        ),
    ),
    World(
        "german pairs",
        "de",
        split("Haus|das|ist|zu"),
        4,
        split(
            '„Das Haus.“ Das|„das Haus. Das ist“|„das „Haus““|„das "Haus"“|„das “Haus““|„das” Haus|das „Haus|'
            "„Das“|(das „Haus“)|"
            "„Das (zu) Haus“ — das|„Das Haus. (Das ist.) Das“|»Haus«|„Das Haus.\n\nDas ist.“|„Das\nHaus“|"
            "„Das Haus: das“|das „Das“"
        ),
    ),
    World(
        "one mark opens and closes",
        "sv",
        split('hus|och|ett|"'),
        4,
        split(
            '”hus”|”hus och”|”hus” ”och”|”hus ”och””|" " "|"|""|"hus"|"hus|hus"|"hus" "|"" hus|("hus")|'
            '"hus. " och|” ” och|”"”'
        ),
    ),
    World(
        "greek and marks",
        "el",
        split("Αθήνα|ένας|ΐδιος|i\u0307x|και|ﬁn|ŉ|a\u0327b|ᾳx"),
        9,
        split("Αθήνα|Ένας|και. Ένας|ΐδιος|Και|İx|i\u0307x|I\u0307x|ﬁn|Fin|ʼN|ᾼx|A\u0327b|a\u0327b"),
    ),
)
