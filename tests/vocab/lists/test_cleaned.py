"""Cleaned lists: the capitals of names and nouns, and what is no word for a reader."""

import random
from functools import lru_cache

import pytest

from tests.profanity import PROFANITY
from tests.reading_checker import LETTERS, reading_faults
from vocab.errors import InvalidWordListError
from vocab.lists.cleaned import Differences, cleaned_languages, differences_of, digest_of, titlecase
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.forms import resolve_case, surface_forms
from vocab.text.reader import TextReader

CHECKED = ["de", "en", "es", "fr"]
"""The languages whose first words a person has read."""

SAMPLES = {
    "en": """about admitted Alabama Angeles anime approach approval arguing arranged arrived artist asset association
        at away boats branch breakfast champions chance chase/Chase chat chips chosen co-workers coaching combined
        commonly complete component components confidence consider consists converted crash crown crystal/Crystal
        dare darkness dated days deep defensive demands demonstrated describes desperate discussing download
        dragon dream eat !em employed engagement English except exception execution experiment explained extra
        fake fan fighter finally finds fleet foreign forgotten funeral gains genetic guidance hands heaven/Heaven
        helpful hey Hollywood honor honour hospital hunter/Hunter incredibly interior introduce Iowa Japanese
        jokes kit landscape laptop lawyer lazy lets literally locked looks lying management Manchester marked
        married Matthew Morgan mouse mystery named Nelson number often our pages painted partly patient phones
        picked pilot pope/Pope power pregnancy prepared pretty price processing promise put radiation rating
        relation relations releases relevant removing reporting riding role Rome rubber rude rural samples Saudi
        scene scheme sector senate/Senate separated serial serving settle shoe sit sites sized skill soldier spare
        sponsored stage statement steal stem steps stopped string structures student sufficient targeted
        television temporary Terry therefore title to toilet topic topics total trains transferred ugh
        unemployment us/US usage van/Van Vietnam voices water weed weight wolf/Wolf worst would've yea year years""",
    "de": """Ablauf Affäre Alfred allein allerdings also amerikanischen/Amerikanischen angehörigen/Angehörigen
        angepasst angezeigt Angriff Anhalt auch aufmerksam ausgelöst ausgerechnet ausgestattet Ausgleich Auskunft
        Ausstattung Bank basiert Bauer begangen beginnt Begriffe Ben benutzen bereit beschreiben/Beschreiben
        beschäftigten/Beschäftigten bestraft besucht Bewegungen bewiesen Bezeichnung Beziehung billig brauche
        breite/Breite bringen Business Chemnitz chinesischen/Chinesischen christliche darf deiner deines der
        dienen diskutiert dorthin eines Einfluss eingehen/Eingehen Einkommen engagiert Erfahrung Erfüllung ergibt
        erkannt ersetzen erzielen Eröffnung etwa exakt Existenz Faktor fern Frank früh fühlte Gebühren Gegenteil
        geh geliefert genau geplante gesund gewinnen/Gewinnen Grand Grunde gutes/Gutes halben/Halben Handlung
        Helfer hierfür Hirn hoher Holz Homepage Hose international/International irgendwas Jahrzehnten jedenfalls
        kamen Kanada kein kleinen/Kleinen klingt Knie Konferenz kämpft Kölner Lebensmittel Li lief lustig
        Meisterschaft Merkel Mexiko Ministerium mitmachen/Mitmachen Mode Modell Modus Momente mussten NATO/Nato
        natürlichen/Natürlichen nett neuen/Neuen normale/Normale offenen/Offenen ohnehin Ohr ORF Partei Polizist
        privaten/Privaten probieren/Probieren Propaganda Prozesse Quatsch raten/Raten rechts Rest Restaurant
        richtiger/Richtiger Sachsen schießt Schleswig schnellen/Schnellen Schreibtisch Schröder Schuss
        schwarzer/Schwarzer schwerer schwimmen/Schwimmen seitens Situation sogenannte solchen Songs stabil Stadion
        stehen/Stehen stets stimmt Straßen Stress stören/Stören Tasche Teufel tiefe/Tiefe toll trifft
        trinken/Trinken Umfang Unfall unsere Unterlagen Urteil Varianten verfügbar Versicherung versorgt versteh
        verwandten/Verwandten Volkes Wahrnehmung Web Weihnachten weise/Weise wert/Wert wird womöglich Worten wurde
        wären Wärme zeigen zusammengefasst Zusammenhang älter Änderungen Ärzte übergeben Übersicht""",
    "es": """abiertos abrió absurdo activos adolescentes adquirir agente al alerta Alfonso alquiler ambiental America
        aparentemente arma asesino aviones ayudas barato barrios/Barrios !big brasileño breve busca básicas
        candidatura cargar castigo castillo/Castillo celebra cercano cobre color completamente composición comprar
        compras conciertos conoció consigue contratos correspondientes costumbres crea cuyo debajo dedo defensor
        democracia descarga descubrimiento diciendo diferentes dijeron disposición dispuestos día dólar echo
        editor eficaz electrónica embarazo empresario enfrentar entiende escritor espacio espectáculo estoy está
        europea/Europea explosión expresar falsos Fernández fijo finanzas fiscalía/Fiscalía fuera función gabinete
        griego gris gustaría haber hambre helado horario horas hospitales huesos humanos incidente indígena
        interés inversión investigaciones jean/Jean la llamado llegando llorando loca locura Lorenzo manda Martín
        matando mecanismo memoria mencionado mencionar mente metal metros mil moneda montañas moreno/Moreno muerto
        mujer Málaga máquinas mío músicos naranja Nicaragua niña normales obligación ofrece ONU orto parado parar
        particulares pasen Pedro pensamientos pequeña personales pertenecen pesos pico pieza plantas !po podremos
        poniendo presentarse prioridad privacidad produjo profundo prohibido promesa propuesto puedo queda química
        radio ramos/Ramos realizaron realizó recomendaciones regalo regresó rincón risa ruedas sois
        soviética/Soviética taller tanta tarjeta teatro templo tener terreno ti !todavia tomas/Tomás trabajan
        trabajo trajo trampa tren tuvimos Twitter ubicada ultima usar utilizado verano verde/Verde violencia
        volver véase únicos""",
    "fr": """accepté adulte ajouté Alex ampleur arrivés attaquant avocats axe bains banlieue Bertrand boule boy boîte
        bureaux but cadeau cassé celui ces chaude cherché choisis christ/Christ Christophe coach codes comité
        commerciales commune complexes concernant conclusion consiste consommation consulter conséquent contribuer
        contribution cote cou crédits célèbre demander descendre devient dimensions Disney dit dit-elle
        documentaire dollars donc donnant décisions décrit défend délégation dîner emplacement employeur enlève
        entend envoie envoyé espace essais essayer existait experts extrêmement faisais ferais film financières
        folle fonctionne forfait francs/Francs fréquence grande gratuite génie général herbe heureux II
        imagination immense industrie inférieur ingénieurs Iran Jacques je la laquelle limite long Louise lui-même
        lunettes Lyon lèvres mac/Mac major manqué marié maîtres meurt midi montrer mots médecin notre nourrir
        observe oeuvre organisme ouverture participation partir passagers Patrick peinture perd permanente peux
        placé plainte poitrine poste potes poulet poussé poète prenait proche proches procès procédures
        productions projets promotion périodes pôle quant Ray rendue respectivement retiré rois ronde rugby
        réparer réponds républicain/Républicain réserves résoudre sache sacs session simples sociale soeur sorte
        sortent souhaite soutenu sports stratégique suivie sympa tableaux termine textes totalement transformation
        transmission travaillent troupes tués Ukraine urbain/Urbain us/US ventes verra versions vieille vingt
        vivent voisins y zone ère élus étions évêque œufs""",
}  # fmt: skip
"""200 entries of each language, drawn at random from the first 5,000 without their capitals and ß, and written here
from knowledge of the language, not from the list. "a/A" may be written both ways; "!a" is no word."""


@lru_cache(maxsize=8)
def words_of(lang: str, *, safe: bool = True) -> WordList:
    return load_word_list(lang, None, safe=safe)


def folded(word: str) -> str:
    return word.lower().replace("ß", "ss")


@pytest.mark.parametrize("lang", CHECKED)
def test_names_and_nouns_of_a_sample_have_the_capitals_that_a_person_gives_them(lang: str) -> None:
    listed: dict[str, set[str]] = {}
    for word in words_of(lang).words[:6_000]:
        listed.setdefault(folded(word), set()).add(word)
    sample = SAMPLES[lang].split()
    assert len(sample) == 200
    wrong = []
    for right in sample:
        spellings = set() if right[0] == "!" else set(right.split("/"))
        found = listed.get(folded(right.lstrip("!").split("/")[0]), set())
        if not found <= spellings or bool(found) != bool(spellings):
            wrong.append((right, sorted(found)))
    assert len(wrong) <= 0.02 * len(sample), wrong


@pytest.mark.parametrize("lang", CHECKED)
def test_only_words_of_one_letter_are_single_letters(lang: str) -> None:
    assert {word for word in words_of(lang).words if len(word) == 1} <= set(LETTERS[lang])


@pytest.mark.parametrize("lang", CHECKED)
def test_texts_of_its_words_have_no_small_names_or_nouns_and_no_fragments(lang: str) -> None:
    assert [word for word in words_of(lang).words if reading_faults(word, lang)] == []
    random_source = random.Random(lang)
    for n_words in (500, 3_000, 20_000):
        word_list = words_of(lang).up_to(n_words)
        for _ in range(35):
            text = " ".join(random_source.choices(word_list.words, k=150))
            assert reading_faults(text, lang) == [], (n_words, text)


@pytest.mark.parametrize("lang", CHECKED)
def test_a_safe_list_has_no_word_of_another_profanity_list(lang: str) -> None:
    found = {word for word in words_of(lang).words if word.lower().partition("'")[0] in PROFANITY[lang]}
    assert found == set()
    unsafe = {word.lower() for word in words_of(lang, safe=False).words}
    assert len(PROFANITY[lang] & unsafe) > len(PROFANITY[lang]) / 2


@pytest.mark.parametrize(
    ("lang", "listed", "not_listed"),
    [
        ("en", "London Michael I I'm don't Monday may May will Will Turkey US us", "london michael i monday usa ve ll"),
        ("de", "Haus haben Straße groß dass Essen essen Leben leben weiß Weg sie Sie", "haus straße strasse gross daß"),
        ("es", "España Madrid lunes enero y María tú", "españa madrid Lunes Enero maría"),
        ("fr", "Paris lundi peut-être c'est-à-dire l' qu' États-Unis français à y œufs", "paris Lundi l L' th"),
        ("tr", "İstanbul Türkiye ev", "istanbul türkiye"),
        ("ru", "Россия из-за кто-то я", "россия"),
    ],
)  # fmt: skip
def test_words_are_written_as_in_books(lang: str, listed: str, not_listed: str) -> None:
    words = set(words_of(lang).words)
    assert [word for word in listed.split() if word not in words] == []
    assert [word for word in not_listed.split() if word in words] == []


def test_a_capital_stands_where_a_sentence_starts_and_at_names() -> None:
    reader = TextReader(words_of("en"), ListOptions(), 3_000)
    for text in ("The dog.", "I met Michael in London.", "It may rain in May."):
        assert reader.is_text(text), text
    for text in ("the Dog.", "I met michael.", "i met him.", "The dog in london."):
        assert not reader.is_text(text), text
    assert resolve_case(words_of("en"), ListOptions()) == "sentence"
    assert not any(form.text == "london" for form in surface_forms(words_of("en").up_to(2_000), ListOptions()))


class TestDifferences:
    def test_each_verdict_does_what_it_says(self) -> None:
        raw = ("the", "ve", "london", "usa", "iphone", "i")
        differences = Differences(digest_of(raw), ".-TURT", ("iPhone",), ((0, "so-called"), (6, "X-ray")), ("the",))
        assert differences.apply(raw, "en", safe=False) == (
            "so-called",
            "the",
            "London",
            "USA",
            "iPhone",
            "I",
            "X-ray",
        )
        assert differences.apply(raw, "en", safe=True) == ("so-called", "London", "USA", "iPhone", "I", "X-ray")
        assert differences.apply(raw, "tr", safe=True)[-2] == "İ"

    def test_a_word_counts_once_at_its_best_rank(self) -> None:
        raw = ("will", "may")
        differences = Differences(digest_of(raw), "..", (), ((1, "may"), (2, "Will")), ())
        assert differences.apply(raw, "en", safe=True) == ("will", "may", "Will")

    def test_they_come_back_from_their_file(self) -> None:
        differences = Differences("0" * 16, ".-", ("Straße",), ((1, "peut-être"),), ("merde",))
        assert Differences.from_bytes(differences.to_bytes()) == differences

    def test_another_version_of_wordfreqs_list_is_refused(self) -> None:
        differences = Differences(digest_of(("a",)), ".", (), (), ())
        with pytest.raises(InvalidWordListError, match="'en' was made for another version of wordfreq"):
            differences.apply(("b",), "en", safe=True)

    def test_languages_without_a_file_have_none(self) -> None:
        assert differences_of("uk") is None
        assert differences_of("../de") is None
        assert load_word_list("id", None).source == "wordfreq"

    def test_all_of_them_are_made_for_the_wordfreq_installed(self) -> None:
        for lang in cleaned_languages():
            # wordfreq has no Thai, and traditional Chinese is made from its simplified list.
            base = {"zh-Hant": "zh"}.get(lang, lang)
            raw = () if lang == "th" else load_word_list(base, None, source="wordfreq").words
            differences = differences_of(lang)
            assert differences is not None
            assert (differences.raw_digest, len(differences.verdicts)) == (digest_of(raw), len(raw)), lang


def test_titlecase_is_one_code_point() -> None:
    assert [titlecase("straße", "de"), titlecase("ıslak", "tr"), titlecase("istanbul", "tr")] == [
        "Straße",
        "Islak",
        "İstanbul",
    ]


def test_a_list_that_differs_in_safety_or_source_has_another_digest() -> None:
    lists = [words_of("en"), words_of("en", safe=False), load_word_list("en", None, source="wordfreq")]
    assert [word_list.source for word_list in lists] == ["cleaned", "cleaned", "wordfreq"]
    assert len({word_list.digest for word_list in lists}) == 3
