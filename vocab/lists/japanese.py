"""Japanese inflection by rule tables: the forms of a verb or adjective, and which of a list's words are forms of which.

A form is a morpheme as MeCab cuts it with IPADIC, the dictionary that wordfreq's list was counted with ("食べ" in
食べました, "書い" in 書いた), or a whole inflected word ("食べた"), which lists of one's own may have. What a word that
ends in る is, 切る (godan) or 着る (ichidan), no rule says: a list that has 切ら and 切っ makes 切る godan.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

_GODAN_ROWS: Final = {
    "う": "わいっえお", "く": "かきいけこ", "ぐ": "がぎいげご",
    "す": "さししせそ", "つ": "たちってと", "ぬ": "なにんねの",
    "ぶ": "ばびんべぼ", "む": "まみんめも", "る": "らりっれろ",
}  # fmt: skip
"""By the last kana: the endings before ない, before ます, before た or だ, of the imperative, and before う."""

_VOICED: Final = frozenset("ぐぬぶむ")
"""Verbs whose past ends in だ."""

_PAST: Final = ("", "た", "て", "たら", "たり")
_VOICED_PAST: Final = ("", "だ", "で", "だら", "だり")
_POLITE: Final = (
    "", "ます", "ました", "ません", "ましょう", "ませんでした",
    "たい", "たく", "たかった", "ながら", "なさい",
)  # fmt: skip
_NEGATIVE: Final = ("", "ない", "なかった", "なくて", "なければ", "ず", "ずに")
_PASSIVE: Final = ("れる", "れた", "れて", "せる", "せた", "せて")

_ICHIDAN: Final = (
    *_PAST, *_POLITE[1:], *_NEGATIVE[1:], "れ", "れば", "ろ", "よ", "よう",
    "られる", "られた", "られて", "させる", "させた", "させて",
)  # fmt: skip
"""Endings of verbs such as 食べる, in place of る."""

_ADJECTIVE: Final = ("く", "くて", "くない", "くなかった", "かっ", "かった", "けれ", "ければ", "かろ", "さ", "そう")
"""Endings of adjectives such as 高い, in place of い."""

_IRREGULAR: Final = {
    "する": """し した して したら したり します しました しません しましょう したい しない しなかった しなければ
        しよ しよう しろ せ せよ さ される された されて させる させた させて すれ すれば せず""",
    "くる": """き きた きて きたら きます きました きません きたい こ こない こなかった こられ こられる
        こさせる こい こよ こよう くれば""",
    "来る": """来 来た 来て 来たら 来たり 来ます 来ました 来ません 来たい 来ない 来なかった 来られ 来られる
        来い 来よ 来よう 来れ 来れば""",
    "行く": """行か 行かない 行かなかった 行き 行きます 行きました 行きません 行きたい
        行っ 行った 行って 行ったら 行け 行けば 行こ 行こう""",
    "いく": """いか いかない いき いきます いきました いきたい いっ いった いって いったら
        いけ いけば いこ いこう""",
    "ある": "あっ あった あって あったら あり あります ありました ありません あれ あれば あろ あろう",
    "いる": "い いた いて いない いなかった います いました いません いたい いれ いれば いよ いよう いろ",
    "いい": "よく よくて よくない よかっ よかった よけれ よければ よい",
    "ない": "なく なくて なかっ なかった なけれ なければ なかろ",
    "だ": "だっ だった だったら だろ だろう",
    "です": "でし でした でしょ でしょう",
    "ます": "まし ました ませ ません ましょ ましょう",
    "た": "たら たろ",
}

_NO_FORMS: Final = frozenset({*_IRREGULAR, "みたい", "て", "たり", "から", "なら", "また", "それ", "これ"})
"""Words of their own that some verb's forms look like."""

_NO_VERBS: Final = frozenset({"そう", "こう", "どう", "もう", "ほう", "よう", "つつ", "ざつ", "なく"})
"""Words that end as verbs do; なく is mostly that of ない."""

_GRAMMAR: Final = """
    の に は が を と も へ で や か から まで より だけ ね よ な て た だ です ます ない たい う よう ん お ご さん
    れる られ られる せる させ させる れ せ まし ませ ましょ でし でしょ だっ だろ なかっ なく なけれ
    たく たかっ たら たり ながら けど けれど ので のに ば って じゃ い いる いっ とか
"""
GRAMMAR: Final = tuple(_GRAMMAR.split())
"""Particles and parts of verbs that no vocabulary names, because each text has them."""

MAX_RARER: Final = 30
"""How much further back in a list a lemma may stand than its form: から, "from", is no form of the rare 駆る."""


def forms_of(word: str, listed: Container[str]) -> tuple[str, ...]:
    """Return the listed forms of a verb or adjective without the word itself; none of what is neither.

    A godan verb has its forms before ない and た in the list, an ichidan verb its stem, an adjective those in く, かっ.
    """
    if word in _IRREGULAR:
        return _forms_in(_IRREGULAR[word].split(), word, listed)
    if word.endswith("する") and len(word) > 3:
        return _forms_in([word[:-2] + form for form in _IRREGULAR["する"].split()], word, listed)
    if len(word) < 2 or word in _NO_VERBS:
        return ()
    stem = word[:-1]
    if _is_godan(word, listed):
        return _forms_in(_godan_forms(word), word, listed)
    if _is_adjective(word, listed):
        return _forms_in([stem + ending for ending in _ADJECTIVE], word, listed)
    is_ichidan = word[-1] == "る" and stem in listed
    return _forms_in([stem + ending for ending in _ICHIDAN], word, listed) if is_ichidan else ()


def lemmas_of_forms(words: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the lemmas of each form that a list has, in the order of the list; a lemma is one of its words."""
    place = {word: number for number, word in enumerate(words, start=1)}
    lemmas: dict[str, tuple[str, ...]] = {}
    for word in words:
        for form in forms_of(word, place):
            if form not in _NO_FORMS and place[word] <= MAX_RARER * place[form]:
                lemmas[form] = (*lemmas.get(form, ()), word)
    return lemmas


def _godan_forms(verb: str) -> Iterator[str]:
    negative, polite, past, imperative, volitional = (verb[:-1] + kana for kana in _GODAN_ROWS[verb[-1]])
    yield from (negative + ending for ending in (*_NEGATIVE, *_PASSIVE))
    yield from (polite + ending for ending in _POLITE)
    yield from (past + ending for ending in (_VOICED_PAST if verb[-1] in _VOICED else _PAST))
    yield from (imperative, imperative + "ば", volitional, volitional + "う")


def _is_godan(word: str, listed: Container[str]) -> bool:
    if word[-1] not in _GODAN_ROWS or len(word) < 2:
        return False
    negative, _, past, *_ = (word[:-1] + kana for kana in _GODAN_ROWS[word[-1]])
    whole_past = past + ("だ" if word[-1] in _VOICED else "た")
    return (negative in listed or negative + "ない" in listed) and (past in listed or whole_past in listed)


def _is_adjective(word: str, listed: Container[str]) -> bool:
    stem = word[:-1]
    is_past = any(_is_godan(stem + kana, listed) for kana in "くぐ")
    return (
        word[-1] == "い"
        and not is_past
        and stem + "く" in listed
        and (stem + "かっ" in listed or stem + "かった" in listed)
    )


def _forms_in(forms: Iterable[str], word: str, listed: Container[str]) -> tuple[str, ...]:
    return tuple(form for form in dict.fromkeys(forms) if form != word and form in listed)
