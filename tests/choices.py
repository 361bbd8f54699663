"""Options of a list, chosen by hand or by hypothesis, by the names that the library and the recogniser give them."""

from typing import TypedDict

from hypothesis import strategies as st

from tests.recogniser import Case, End, Layout, Punctuation


class Choice(TypedDict):
    """The options of a list, by the names that both the library and the recogniser give them."""

    case: Case
    layout: Layout
    numbers: bool
    punctuation: Punctuation
    end: End


def choices() -> st.SearchStrategy[Choice]:
    """Any options that do not contradict one another."""
    return st.builds(
        Choice,
        case=st.sampled_from(["auto", "sentence", "any", "listed"]),
        layout=st.sampled_from(["prose", "lines"]),
        numbers=st.booleans(),
        punctuation=st.sampled_from(["standard", "standard", "full", "basic", "none"]),
        end=st.sampled_from(["word", "sentence"]),
    ).filter(lambda choice: choice["end"] == "word" or choice["punctuation"] != "none")


PLAIN = Choice(case="auto", layout="prose", numbers=False, punctuation="full", end="word")
TELLING_CHOICES = (
    PLAIN,
    Choice(case="sentence", layout="lines", numbers=False, punctuation="full", end="word"),
    Choice(case="any", layout="prose", numbers=True, punctuation="full", end="word"),
    Choice(case="listed", layout="prose", numbers=False, punctuation="basic", end="word"),
    Choice(case="sentence", layout="prose", numbers=True, punctuation="none", end="word"),
    Choice(case="sentence", layout="lines", numbers=False, punctuation="none", end="word"),
    Choice(case="auto", layout="prose", numbers=False, punctuation="full", end="sentence"),
    Choice(case="sentence", layout="lines", numbers=True, punctuation="basic", end="sentence"),
    Choice(case="auto", layout="prose", numbers=False, punctuation="standard", end="word"),
    Choice(case="sentence", layout="prose", numbers=True, punctuation="standard", end="sentence"),
    Choice(case="sentence", layout="lines", numbers=False, punctuation="standard", end="word"),
)
"""Each option by itself, and a few together."""


def choice_id(choice: Choice) -> str:
    return "-".join(str(value) for value in choice.values())
