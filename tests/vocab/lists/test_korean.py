"""The Korean list: a stem with its particles or endings is a word of the stem's rank.

The sentences and what is listed of them were written down from knowledge of the language, not made by the list's rules.
"""

from functools import lru_cache

import pytest

from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import DEFAULT_OPTIONS
from vocab.text.checker import TextChecker

SENTENCES = """
저는 학교에서 한국어를 공부해요.
어제 친구를 만나서 같이 밥을 먹었습니다.
우리 집에는 작은 고양이가 있어요.
날씨가 추워서 밖에 나가고 싶지 않아요.
그 사람은 누구입니까?
내일 시간이 있으면 영화를 볼까요?
어머니께서 아침마다 빵을 만드셨어요.
이 노래를 들으면 마음이 편해집니다.
선생님의 말씀을 잘 들었지만 이해하지 못했다.
버스를 타고 도서관으로 갔는데 문이 닫혀 있었다.
나는 동생보다 키가 크다.
물을 마시러 부엌에 갑니다.
여기서 서울역까지 얼마나 걸려요?
무엇을 도와 드릴까요?
그건 내가 찾던 책이에요.
"""

RARE = (
    ("오늘은 산에서 화석을 보았다.", {"화석을"}),
    ("나는 굴착기를 본 적이 없다.", {"굴착기를"}),
    ("아이가 옹알이를 했어요.", {"옹알이를"}),
    ("그는 부스럭거리면서 들어왔다.", {"부스럭거리면서"}),
)
"""Sentences with words whose stem is rarer than the first 5,000."""

SAME_RANK = (
    "먹다 먹고 먹어요 먹었습니다 먹는 먹을 먹으면 먹지만 먹습니다 먹자 먹으세요",
    "돕다 돕고 도와요 도왔다 도운 도울 도우면",
    "예쁘다 예뻐요 예뻤어요 예쁜 예쁘지만",
    "어렵다 어려워요 어려운 어려웠다 어렵지만",
    "학교 학교가 학교를 학교에 학교에서 학교는 학교의 학교로 학교와 학교도 학교입니다 학교였다 학교예요",
    "사람 사람이 사람을 사람은 사람들 사람들이 사람들은 사람입니다 사람이에요 사람이었다",
    "공부 공부를 공부하다 공부해요 공부했습니다 공부하는 공부할",
    "길이 길을 길로 길에서",
)
"""Forms of one stem each; none is a form of a more frequent one."""

MORPHEMES = (
    "는 을 를 었 습니다 하 었습니다 예쁘 에서 으로 "
    "ᆫ 학교으로 학교을 사람를 사람와 길으로 먹어습니다 예쁘는다 돕아 하였고요는"
)


@lru_cache(maxsize=1)
def korean() -> WordList:
    return load_word_list("ko", None)


@lru_cache(maxsize=1)
def rank_of() -> dict[str, int]:
    return {word: rank for rank, word in korean().ranked()}


def unlisted(text: str, n_words: int) -> set[str]:
    report = TextChecker(korean(), DEFAULT_OPTIONS, n_words).check(text, with_notes=False)
    return {text[word.start : word.end] for word in report.words if not word.is_allowed}


def test_plain_sentences_are_within_the_first_5000_stems() -> None:
    words = SENTENCES.split()
    missing = unlisted(SENTENCES.strip().replace("\n", " "), 5_000)
    assert len(missing) <= 0.05 * len(words), missing


@pytest.mark.parametrize(("text", "rare"), RARE)
def test_a_rarer_stem_is_not_listed_in_any_form(text: str, rare: set[str]) -> None:
    assert unlisted(text, 5_000) == rare


@pytest.mark.parametrize("forms", SAME_RANK)
def test_the_forms_of_a_stem_share_its_rank(forms: str) -> None:
    ranks = {form: rank_of().get(form) for form in forms.split()}
    assert len(set(ranks.values())) == 1, ranks
    assert None not in ranks.values()


def test_what_never_stands_alone_and_what_is_wrongly_joined_is_no_word() -> None:
    assert [word for word in MORPHEMES.split() if word in rank_of()] == []


def test_the_list_is_ranked_by_stems_of_which_the_dictionary_form_is_first() -> None:
    first: dict[int, str] = {}
    for rank, word in korean().ranked():
        first.setdefault(rank, word)
    assert {"가다", "먹다", "학교", "사람", "공부", "좋다"} <= {first[rank] for rank in range(1, 1_001)}
    assert korean().num_ranks > 9_000
    assert len(korean().words) == len(set(korean().words))
    # N counts stems, whichever unit is asked for.
    assert group_by_lemma(korean()) is korean()


def test_a_note_names_the_dictionary_form() -> None:
    report = TextChecker(korean(), DEFAULT_OPTIONS, 10).check("먹었습니다.")
    assert report.notes["먹었습니다"].lemma == "먹다"
