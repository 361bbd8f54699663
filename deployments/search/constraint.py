"""A word list as one request has it: how it is named to the engine at each step, and where tokens lead.

The engine masks; this follows, over the same artefact, so that a step can name the state in which its text goes on.
A token that the states do not allow is a fault of the engine, and an error. Nothing here knows of vLLM.
"""

from dataclasses import dataclass, replace

from vocab.decoding.generator import Place
from vocab.matching.reference import GrammarReference
from vocab.matching.repeats import MAX_SEEN
from vocab.matching.states import States


class ListFaultError(Exception):
    """The engine gave a token that the word list does not allow: a fault of ours."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A word list.

    Attributes:
        reference: Names it to the engine, and the rule of repetition.
        states: The same states that the engine follows.
    """

    reference: GrammarReference
    states: States

    def grammar(self, place: Place, budget: int) -> str:
        """The grammar of a text that goes on from a place within ``budget`` tokens."""
        no_repeat = self.reference.no_repeat
        here = replace(
            self.reference,
            max_tokens=budget,
            start=place.state if place.tokens else None,
            seen=() if no_repeat is None else place.tokens[-MAX_SEEN:],
        )
        return here.to_ebnf()

    def after(self, state: int, tokens: tuple[int, ...], budget: int, end_tokens: frozenset[int]) -> int:
        """The state that tokens lead to, of which ``budget`` may come.

        Raises:
            ListFaultError: One of them may not come where it stands.
        """
        for token in tokens:
            budget -= 1
            if token in end_tokens:
                if not self.states.can_stop(state):
                    raise ListFaultError("the engine ended a text that is not whole")
                continue
            state = self.states.target(state, token, budget)
            if state < 0:
                raise ListFaultError(f"the engine gave token {token}, which may not come there")
        return state
