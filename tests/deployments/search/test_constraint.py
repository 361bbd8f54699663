import pytest

from deployments.search.constraint import Constraint, ListFaultError
from tests.vocab.toys import toy_automaton
from vocab.decoding.generator import Place
from vocab.matching.masks import MaskRows
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates

END = frozenset({0})
BUDGET = 30


@pytest.fixture
def constraint() -> Constraint:
    automaton, _ = toy_automaton(["the", "cat"], lang="en")
    states = ListStates(automaton, MaskRows(automaton), 2)
    return Constraint(GrammarReference(automaton.digest, 2, BUDGET), states)


def tokens_for(text: str) -> tuple[int, ...]:
    _, tokenizer = toy_automaton(["the", "cat"], lang="en")
    return tuple(tokenizer.token_bytes.index(bytes([byte])) for byte in text.encode())


def test_a_text_goes_on_where_it_stands(constraint: Constraint) -> None:
    tokens = tokens_for("the c")
    state = constraint.after(constraint.states.start, tokens, BUDGET, END)
    reference = GrammarReference.parse(constraint.grammar(Place(tokens, state), 9))
    assert reference is not None
    assert (reference.start, reference.max_tokens, reference.seen) == (state, 9, ())


def test_a_text_begins_without_a_state(constraint: Constraint) -> None:
    reference = GrammarReference.parse(constraint.grammar(Place(state=constraint.states.start), 9))
    assert reference is not None and reference.start is None


def test_what_was_written_is_told_where_it_must_not_come_again(constraint: Constraint) -> None:
    once = Constraint(GrammarReference(constraint.reference.digest, 2, BUDGET, no_repeat=3), constraint.states)
    reference = GrammarReference.parse(once.grammar(Place((1, 2, 3), 5), 9))
    assert reference is not None and reference.seen == (1, 2, 3)


def test_a_token_that_may_not_come_is_a_fault(constraint: Constraint) -> None:
    with pytest.raises(ListFaultError, match="may not come"):
        constraint.after(constraint.states.start, tokens_for("thx"), BUDGET, END)


def test_a_text_ends_only_where_it_is_whole(constraint: Constraint) -> None:
    start = constraint.states.start
    assert constraint.after(start, (*tokens_for("the"), 0), BUDGET, END) >= 0
    with pytest.raises(ListFaultError, match="not whole"):
        constraint.after(start, (*tokens_for("th"), 0), BUDGET, END)


def test_a_token_after_which_no_word_fits_the_budget_is_a_fault(constraint: Constraint) -> None:
    with pytest.raises(ListFaultError, match="may not come"):
        constraint.after(constraint.states.start, tokens_for("the c"), 5, END)
