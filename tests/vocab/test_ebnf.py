"""The EBNF, read by xgrammar, allows exactly what the slow recogniser allows."""

from dataclasses import dataclass

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recogniser import Case, Layout, Recogniser
from tests.worlds import TEXTS_OF_NO_LIST, WORLDS, World
from vocab.ebnf import write_ebnf
from vocab.errors import EmptyWordListError
from vocab.options import ListOptions
from vocab.wordlists import WordList, load_word_list

LAYOUTS: tuple[Layout, ...] = ("prose", "lines")
CASES: tuple[Case, ...] = ("auto", "sentence", "any", "listed")
BYTES = xgrammar.TokenizerInfo(
    [bytes([byte]) for byte in range(256)], vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[0]
)


@dataclass(frozen=True)
class Pair:
    """xgrammar's matcher of our EBNF and the recogniser of the same list."""

    matcher: xgrammar.GrammarMatcher
    recogniser: Recogniser

    @classmethod
    def of(cls, world: World, case: Case, layout: Layout) -> "Pair":
        word_list = WordList(world.lang, world.words, "file")
        ebnf = write_ebnf(word_list, ListOptions(case, layout), world.n_words)
        compiled = xgrammar.GrammarCompiler(BYTES, max_threads=1).compile_grammar(ebnf)
        return cls(
            xgrammar.GrammarMatcher(compiled),
            Recogniser(world.words, world.n_words, world.lang, case, layout),
        )

    def assert_they_agree_on(self, text: str) -> None:
        self.matcher.reset()
        is_prefix = text == "" or self.matcher.accept_string(text)
        is_complete = is_prefix and self.matcher.is_completed()
        assert (is_prefix, is_complete) == (self.recogniser.is_prefix(text), self.recogniser.is_text(text)), repr(text)


PAIRS = {
    (world.name, case, layout): Pair.of(world, case, layout) for world in WORLDS for case in CASES for layout in LAYOUTS
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_it_agrees_with_the_recogniser_on_hand_picked_texts(world: World, case: Case, layout: Layout) -> None:
    pair = PAIRS[world.name, case, layout]
    for text in (*TEXTS_OF_NO_LIST, *world.texts):
        pair.assert_they_agree_on(text)


@pytest.mark.parametrize("world", WORLDS, ids=str)
@given(data=st.data(), case=st.sampled_from(CASES), layout=st.sampled_from(LAYOUTS))
@settings(max_examples=300, deadline=None)
def test_it_agrees_with_the_recogniser_on_random_texts(
    world: World, data: st.DataObject, case: Case, layout: Layout
) -> None:
    PAIRS[world.name, case, layout].assert_they_agree_on(data.draw(world.likely_texts()))


def test_a_list_of_elisions_alone_has_no_text() -> None:
    with pytest.raises(EmptyWordListError, match="the first 2 words of 'fr'"):
        write_ebnf(WordList("fr", ("l'", "d’", "eau"), "file"), ListOptions(), 2)


def test_every_line_is_a_rule_so_vllm_does_not_take_it_for_lark() -> None:
    ebnf = write_ebnf(WordList("en", ("#tag", "// x", 'a"b', "root: x"), "file"), ListOptions(), 4)
    assert all(" ::= " in line for line in ebnf.splitlines())
    assert ebnf.startswith("root ::= ")


def test_vllm_passes_it_on_as_it_is() -> None:
    utils = pytest.importorskip("vllm.v1.structured_output.utils")
    ebnf = write_ebnf(WordList("en", ("#tag", "// x", 'a"b', "root: x"), "file"), ListOptions(), 4)
    assert not utils.grammar_is_likely_lark(ebnf)


def test_xgrammar_reads_the_string_rightly_and_the_parsed_grammar_wrongly() -> None:
    """xgrammar 0.2.8 rejects the "í" of "difícil" after ``Grammar.from_ebnf``: the reason why strings are passed."""
    ebnf = write_ebnf(load_word_list("es", None), ListOptions(), 1000)
    compiler = xgrammar.GrammarCompiler(BYTES, max_threads=1)
    from_string = xgrammar.GrammarMatcher(compiler.compile_grammar(ebnf))
    assert from_string.accept_string("es difícil")
    assert from_string.is_completed()
    parsed = xgrammar.GrammarMatcher(compiler.compile_grammar(xgrammar.Grammar.from_ebnf(ebnf)))
    assert not parsed.accept_string("es difícil")


def test_its_case_is_that_of_the_whole_list() -> None:
    """Made from the first words alone, but with the case of the whole list: London stands behind them."""
    world = World("whole list", "en", ("the", "cat", "a", "London"), 3, ())
    pair = Pair.of(world, "auto", "prose")
    for text in ("The cat. A cat", "the Cat", "London", "the A", "A. The"):
        pair.assert_they_agree_on(text)
    assert "start-word" in write_ebnf(WordList("en", world.words, "file"), ListOptions(), 3)
    assert "start-word" not in write_ebnf(WordList("en", world.words[:3], "file"), ListOptions(), 3)
