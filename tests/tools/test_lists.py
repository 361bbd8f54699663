"""How an entry of wordfreq's is judged by what the sources know of it."""

from tools.lists.evidence import Evidence, unaccented_words
from tools.lists.hand import FOLDER, Hand, expand, fold, read_hand
from tools.lists.judge import Judge

EN = {
    "dog": {"dog": 94.0, "Dog": 6.0},
    "london": {"london": 6.0, "London": 94.0},
    "mark": {"mark": 60.0, "Mark": 40.0},
    "oh": {"oh": 30.0, "Oh": 70.0},
    "usa": {"usa": 10.0, "USA": 90.0, "Usa": 1.0},
    "ns": {"ns": 1.0, "NS": 9.0},
    "iphone": {"iphone": 2.0, "iPhone": 9.0, "Iphone": 1.0},
    "teh": {"teh": 1e-7},
}
DE = {
    "haus": {"haus": 3.0, "Haus": 97.0},
    "essen": {"essen": 40.0, "Essen": 60.0},
    "strasse": {"Straße": 90.0, "Strasse": 5.0, "straße": 1.0},
    "dass": {"dass": 90.0, "daß": 5.0},
}


def judge(
    language: str, uses: dict[str, dict[str, float]], hand: Hand, *, is_counted: bool = True, **known: str
) -> Judge:
    names = ("small", "proper", "places", "people", "nouns", "other_names")
    sets = {name: frozenset(known.get(name, "").split()) for name in names}
    return Judge(
        Evidence(language, uses, is_counted, **sets, lemmas={}), hand, frozenset(known.get("foreign", "").split())
    )


HAND = Hand(
    letters=frozenset({"a", "I"}),
    junk=frozenset({"ve"}),
    acronyms=frozenset({"TV"}),
    spelled={"may": ("may", "May")},
)
ENGLISH = judge(
    "en",
    EN,
    HAND,
    small="dog mark oh rabbit don't we we'll",
    proper="We'll Mark O'Brien Rabbitt",
    places="London",
    people="Rabbitt",
    other_names="Oh",
)
GERMAN = judge("de", DE, Hand(), small="essen dass haus", proper="Haus Essen Straße Fußballspiel")


ENGLISH_SPELLINGS = {
    "dog": "dog",
    "london": "London",
    "mark": "mark Mark",
    "oh": "oh",
    "usa": "USA",
    "ns": "",
    "tv": "TV",
    "iphone": "iPhone",
    "teh": "",
    "ve": "",
    "may": "may May",
    "i": "I",
    "x": "",
    "i'm": "I'm",
    "don't": "don't",
    "london's": "London's",
    "o'brien": "O'Brien",
    # What takes no possessive has none.
    "it's": "",
    "i's": "",
    "the's": "",
    "we'll": "we'll",
    "goin'": "",
    "rabbit": "rabbit",
    "rabbitt": "Rabbitt",
}
GERMAN_SPELLINGS = {
    "haus": "Haus",
    "essen": "Essen essen",
    "strasse": "Straße",
    "dass": "dass",
    "fussballspiel": "Fußballspiel",
}


def test_an_entry_is_written_as_it_is_used_and_german_nouns_with_capital_and_sharp_s() -> None:
    for judged, expected in ((ENGLISH, ENGLISH_SPELLINGS), (GERMAN, GERMAN_SPELLINGS)):
        found = {entry: judged.spellings(entry)[1] for entry in expected}
        assert {entry: " ".join(one.text for one in spellings) for entry, spellings in found.items()} == expected
    # The rarer of two spellings stands further back.
    _, (word, name) = ENGLISH.spellings("mark")
    assert (word.steps, name.steps) == (0, 26)


def test_an_elision_is_kept_with_what_it_joins() -> None:
    french = judge("fr", {"italie": {"Italie": 9.0}}, Hand(), small="homme", places="Italie")
    found = [[spelling.text for spelling in french.spellings(entry)[1]] for entry in ("l'", "l'italie", "l'xyz")]
    assert found == [["l'"], ["l'Italie"], []]


SECOND_TIER = {
    # No dictionary has it: it stays, unless it is of another language, cut off, or of other letters.
    "stasera": "stasera",
    "the": "",
    "nn": "",
    "st": "",
    "naïve": "",
    "который": "",
    # A dictionary has it.
    "sì": "sì",
    "è": "è",
    "x": "",
    # The capitals of tokenizers are those of all languages.
    "arte": "arte",
    "roma": "roma Roma",
    "berlino": "Berlino",
    "mosca": "Mosca",
    "c'è": "c'è",
}


def test_in_the_second_tier_what_no_dictionary_has_stays_unless_there_is_evidence_against_it() -> None:
    uses = {"arte": {"arte": 3.0, "Arte": 9.0}, "mosca": {"mosca": 2.0, "Mosca": 9.0}, "berlino": {"Berlino": 1.0}}
    known = {
        "small": "sì arte mosca roma",
        "places": "Roma",
        "people": "Mosca",
        "nouns": "Arte",
        "other_names": "Berlino",
    }
    hand = Hand(alphabet=frozenset("abcdefghijklmnopqrstuvwxyzàèéìòù"), letters=frozenset("è"))
    italian = judge("it", uses, hand, is_counted=False, foreign="the berlino", **known)
    found = {entry: " ".join(one.text for one in italian.spellings(entry)[1]) for entry in SECOND_TIER}
    assert found == SECOND_TIER


def test_an_alphabet_may_be_a_script_and_a_korean_syllable_is_no_letter() -> None:
    for language, script, entries in (("ko", "HANGUL", "나 ㅋ a"), ("hi", "DEVANAGARI", "में ह a")):
        judged = judge(language, {}, Hand(alphabet=frozenset({script})))
        word, *others = entries.split()
        assert [len(judged.spellings(entry)[1]) for entry in (word, *others)] == [1, 0, 0]


def test_a_word_without_its_accents_is_no_word_where_the_accented_one_is_more_frequent() -> None:
    known = frozenset({"fără", "să", "ещё"})
    assert list(unaccented_words(["fără", "fara", "sa", "să", "ещё", "еще"], known)) == ["fara"]
    # Folding is wordfreq's.
    assert [fold("Straße"), fold("İstanbul")] == ["strasse", "istanbul"]


def test_what_is_written_by_hand_can_be_read() -> None:
    one_line = "alphabet letters junk small names both acronyms added harmless unsafe words"
    sections = set(one_line.split())
    files = {file.stem: file.read_text().splitlines() for file in FOLDER.glob("*.txt")}
    named = {name: {line.strip("[]") for line in lines if line.startswith("[")} for name, lines in files.items()}
    assert {name: found - sections for name, found in named.items() if found - sections} == {}
    assert files


def test_a_word_written_by_hand_is_not_junk_and_a_language_goes_before_all() -> None:
    hand = read_hand("en")
    assert not hand.junk & set(hand.spelled)
    assert (hand.spelled["apple"], read_hand("de").spelled["apple"]) == (("apple", "Apple"), ("Apple",))
    assert (hand.added["T-shirt"], hand.added["real-life"]) == (0, 100)


def test_a_class_of_words_is_expanded() -> None:
    for pattern, words in {
        "week-end": "week-end",
        "{twenty thirty}-{one two}": "twenty-one twenty-two thirty-one thirty-two",
        "{anak orang}-{}nya": "anak-anaknya orang-orangnya",
        "ber{lari jalan}-{}": "berlari-lari berjalan-jalan",
        "z._B.": "z. B.",
    }.items():
        assert " ".join(expand(pattern)) == words


HYPHENED = {
    # By hand, and in no class. What comes of the dictionaries is not here.
    "en": ("ninety-nine twenty-one forty-two", "dog-house ninety-ten one-twenty the-dog"),
    "id": ("anak-anak laki-laki orang-orang anak-anaknya berlari-lari kupu-kupu", "yang-yang dan-dan anak-orang"),
    "ms": ("kanak-kanak orang-orang baik-baik", "yang-yang dan-dan"),
    "fil": ("araw-araw gabi-gabi mag-aral tag-ulan", "ang-ang mag-"),
    "hi": ("धीरे-धीरे कभी-कभी साथ-साथ", "है-है"),
    "ro": ("într-o s-a mi-a ți-am l-am dă-mi într-un dintr-o n-am du-te", "a-s o-într casă-mi"),
    "pt": ("dá-lo chama-se chamo-me fazê-lo disse-me dir-se-ia", "dar-lo chama-o-se fazer-lo"),
    "fr": (
        "vas-y donne-moi vingt-trois est-ce a-t-il dis-moi celui-ci là-bas vingt-et-un soixante-dix va-t'en "
        "quatre-vingt-dix-neuf",
        "va-y donne-me vingt-un a-il est-t-il soixante-sept-dix tout-à-coup peu-à-peu",
    ),
    "ca": ("anar-hi fer-ho vint-i-tres trenta-dos digues-me anar-se'n", "vint-tres trenta-i-dos veure-se"),
    "ru": ("кто-то что-нибудь по-русски из-за чуть-чуть кое-что", "еще-то дом-то"),
    "uk": ("хто-небудь будь-який по-українськи з-за", "дім-то"),
    "hu": ("van-e tudja-e nem-e", "ház-e"),
    "cs": ("je-li máte-li", "dům-li"),
    "es": ("", "di-me vamos-nos"),
    "it": ("", "dimmi-lo c-è"),
}


def test_words_with_hyphens_are_added_by_class_and_no_others() -> None:
    for language, (added, refused) in HYPHENED.items():
        hand = read_hand(language)
        assert [word for word in added.split() if word not in hand.added] == [], language
        assert [word for word in refused.split() if word in hand.added] == [], language


def test_dictionary_words_of_a_class_have_its_steps_and_what_is_named_alone_its_own() -> None:
    filipino, english = read_hand("fil"), read_hand("en")
    of_class = [steps for pattern, steps in filipino.classes.items() if pattern.match("mag-abang")]
    assert (of_class, [pattern for pattern in filipino.classes if pattern.match("araw-gabi")]) == ([60], [])
    assert (english.added["twenty-one"], english.added["well-known"]) == (60, 50)
    assert read_hand("ro").added["s-a"] == 0


def test_an_abbreviation_has_its_full_stop_and_those_that_end_sentences_stand_without_it_too() -> None:
    for language, entry, spellings in (
        ("en", "mr", "Mr. Mr"),
        ("en", "etc", "etc. etc"),
        ("en", "vs", "vs. vs"),
        ("es", "sr", "Sr."),
        ("es", "uds", "Uds."),
        ("fr", "mme", "Mme"),
        ("de", "usw", "usw. usw"),
        ("de", "bzw", "bzw."),
        ("de", "nr", "Nr."),
        ("ru", "др", "др. др"),
    ):
        hand = read_hand(language)
        assert (hand.spelled[entry], entry in hand.junk) == (tuple(spellings.split()), False)
    assert {"e.g.", "i.e."} <= set(read_hand("en").added)
    assert {"z. B.", "d. h."} <= set(read_hand("de").added)
    assert {"M.", "p. ex."} <= set(read_hand("fr").added)
