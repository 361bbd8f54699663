import pytest
import xgrammar
from hypothesis import given
from hypothesis import strategies as st

from tests.vocab.toys import tokens_of
from vocab.reference import GrammarReference

REFERENCE = GrammarReference("0123456789abcdef" * 4, 1000, 64)


@given(st.integers(1, 2**63 - 1), st.one_of(st.none(), st.integers(1, 2**63 - 1)))
def test_a_reference_survives_the_journey(n_words: int, max_tokens: int | None) -> None:
    reference = GrammarReference("ab" * 32, n_words, max_tokens)
    assert GrammarReference.parse(reference.to_ebnf()) == reference


def test_an_engine_that_does_not_know_it_can_only_stop() -> None:
    info = xgrammar.TokenizerInfo(["<stop>", "a", "b", "root", '"'], stop_token_ids=[0])
    grammar = xgrammar.GrammarCompiler(info).compile_grammar(REFERENCE.to_ebnf())
    row = xgrammar.allocate_token_bitmask(1, 5)
    xgrammar.GrammarMatcher(grammar).fill_next_token_bitmask(row)
    assert tokens_of(row.numpy()[0]) == {0}


@pytest.mark.parametrize("grammar", ['root ::= "a"', "", 'root ::= ""\n# wordbound/1 list=xyz n=1 max=-\n'])
def test_other_grammars_are_no_references(grammar: str) -> None:
    assert GrammarReference.parse(grammar) is None


def test_a_reference_of_another_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="version 9, but this engine's plugin knows 1"):
        GrammarReference.parse(REFERENCE.to_ebnf().replace("wordbound/1", "wordbound/9"))
