"""The Lark grammar, read by llguidance, allows exactly what the slow recogniser allows."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.changed_worlds import ALL_WORLDS
from tests.choices import PLAIN, TELLING_CHOICES, Choice, choice_id, choices
from tests.recogniser import Case, End, Layout, Punctuation
from tests.vocab.text.test_grammar import ebnf_of
from tests.worlds import World
from vocab.errors import EmptyWordListError
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.ebnf import ebnf_to_lark
from vocab.text.grammar import write_ebnf

llguidance = pytest.importorskip("llguidance")


class Bytes:
    """A tokenizer of single bytes, as llguidance asks for one."""

    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


@cache
def tokenizer() -> Any:
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))


def matcher_of(world: World, choice: Choice) -> Any:
    """llguidance's matcher; None where no text is possible."""
    return _matcher(world, **choice)


@cache
def _matcher(
    world: World, case: Case, layout: Layout, numbers: bool, punctuation: Punctuation, end: End, possessive: bool
) -> Any:
    choice = Choice(case=case, layout=layout, numbers=numbers, punctuation=punctuation, end=end, possessive=possessive)
    try:
        grammar = llguidance.grammar_from("lark", ebnf_to_lark(ebnf_of(world, choice)))
    except EmptyWordListError:
        return None
    matcher = llguidance.LLMatcher(tokenizer(), grammar)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def assert_it_agrees_on(text: str, world: World, choice: Choice) -> None:
    matcher, judge, spelled = matcher_of(world, choice), world.judge(choice), list(text.encode())
    is_prefix = is_complete = False
    if matcher is not None:
        matcher.reset()
        is_prefix = matcher.validate_tokens(spelled) == len(spelled)
        is_complete = is_prefix and matcher.consume_tokens(spelled) and matcher.is_accepting()
    assert (is_prefix, is_complete) == (judge.is_prefix(text), judge.is_text(text)), repr(text)


@pytest.mark.parametrize("choice", TELLING_CHOICES, ids=choice_id)
@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
def test_it_agrees_with_the_recogniser_on_hand_picked_texts(world: World, choice: Choice) -> None:
    for text in world.hand_picked_texts():
        assert_it_agrees_on(text, world, choice)


@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
@given(data=st.data(), choice=choices())
@settings(max_examples=settings().max_examples // 2)
def test_it_agrees_with_the_recogniser_on_random_texts(world: World, data: st.DataObject, choice: Choice) -> None:
    assert_it_agrees_on(data.draw(world.likely_texts()), world, choice)


def test_llguidances_own_conversion_reads_words_greedily() -> None:
    """The reason why there is a dialect of its own; llguidance 1.7."""
    words = WordList("xx", ("in", "the", "in front of"), "file")
    ebnf = write_ebnf(words, ListOptions(punctuation="full"), 3)
    own = llguidance.LLMatcher(tokenizer(), llguidance.grammar_from("gbnf", ebnf))
    assert own.validate_tokens(list(b"in the")) < len(b"in the")
    assert_it_agrees_on("in the", World("phrases", "xx", words.words, 3, ()), PLAIN)


def test_names_and_quoted_characters_are_told_apart() -> None:
    ebnf = 'root ::= " "? start-unit\nstart-unit ::= [a"\\]\\\\[] ("root\\" gap" | "[open]"){0,2}\n'
    assert ebnf_to_lark(ebnf) == (
        'start: TEXT\nTEXT: " "? START_UNIT\nSTART_UNIT: /[a"\\]\\\\\\[]/ ("root\\" gap" | "[open]"){0,2}\n'
    )
