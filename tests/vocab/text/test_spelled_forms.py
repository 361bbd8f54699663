"""The arrays of forms against the forms themselves, which are made one by one."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds import WORLDS, World
from vocab.lists.wordlists import WordList
from vocab.options import Case, ListOptions
from vocab.text.forms import surface_forms
from vocab.text.spelled_forms import SpelledForms, spell_forms

Best = dict[str, tuple[int, int, bool]]
CASES: tuple[Case, ...] = ("auto", "sentence", "any", "listed")


def best_of(forms: SpelledForms) -> Best:
    """Each text with its best rank anywhere, its best rank at a sentence start, and whether it elides."""
    anywhere: dict[str, int] = defaultdict(lambda: 10**9)
    at_start: dict[str, int] = defaultdict(lambda: 10**9)
    elides: dict[str, bool] = {}
    data = forms.strings.data.tobytes()
    for i, rank in enumerate(forms.ranks.tolist()):
        text = data[forms.strings.starts[i] : forms.strings.ends[i]].decode()
        assert forms.has_apostrophe[i] == ("'" in text or "’" in text)
        ranks = at_start if forms.sentence_only[i] else anywhere
        ranks[text] = min(ranks[text], rank)
        elides[text] = elides.get(text, False) or bool(forms.elides[i])
    return {text: (anywhere[text], min(anywhere[text], at_start[text]), elides[text]) for text in elides}


def assert_forms_are_those_made_one_by_one(word_list: WordList, case: Case) -> None:
    options = ListOptions(case=case)
    one_by_one = SpelledForms.of(surface_forms(word_list, options, with_possessives=False))
    assert best_of(spell_forms(word_list, options)) == best_of(one_by_one)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_the_worlds_have_the_same_forms(world: World, case: Case) -> None:
    assert_forms_are_those_made_one_by_one(WordList(world.lang, world.words, "file"), case)


WORDS = st.lists(
    st.text("abAéİiıßǆ'’ -\u0307日", min_size=1, max_size=5).map(str.strip).filter(bool), min_size=1, unique=True
)


@given(words=WORDS, lang=st.sampled_from(["en", "es", "fr", "tr"]), case=st.sampled_from(CASES), data=st.data())
def test_any_list_has_the_same_forms(words: list[str], lang: str, case: Case, data: st.DataObject) -> None:
    ranks = [1]
    while len(ranks) < len(words):
        ranks.append(ranks[-1] + data.draw(st.integers(0, 1)))
    assert_forms_are_those_made_one_by_one(WordList(lang, tuple(words), "file", tuple(ranks)), case)
