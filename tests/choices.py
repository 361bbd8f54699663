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
    possessive: bool


def choices() -> st.SearchStrategy[Choice]:
    """Any options that do not contradict one another."""
    return st.builds(
        Choice,
        case=st.sampled_from(["auto", "sentence", "any", "listed"]),
        layout=st.sampled_from(["prose", "lines"]),
        numbers=st.booleans(),
        punctuation=st.sampled_from(["standard", "standard", "full", "basic", "none"]),
        end=st.sampled_from(["word", "sentence"]),
        possessive=st.sampled_from([True, True, False]),
    ).filter(lambda choice: choice["end"] == "word" or choice["punctuation"] != "none")


PLAIN = Choice(case="auto", layout="prose", numbers=False, punctuation="full", end="word", possessive=True)
TELLING_CHOICES = (
    PLAIN,
    Choice(case="sentence", layout="lines", numbers=False, punctuation="full", end="word", possessive=True),
    Choice(case="any", layout="prose", numbers=True, punctuation="full", end="word", possessive=True),
    Choice(case="listed", layout="prose", numbers=False, punctuation="basic", end="word", possessive=True),
    Choice(case="sentence", layout="prose", numbers=True, punctuation="none", end="word", possessive=True),
    Choice(case="sentence", layout="lines", numbers=False, punctuation="none", end="word", possessive=True),
    Choice(case="auto", layout="prose", numbers=False, punctuation="full", end="sentence", possessive=True),
    Choice(case="sentence", layout="lines", numbers=True, punctuation="basic", end="sentence", possessive=True),
    Choice(case="auto", layout="prose", numbers=False, punctuation="standard", end="word", possessive=True),
    Choice(case="sentence", layout="prose", numbers=True, punctuation="standard", end="sentence", possessive=True),
    Choice(case="sentence", layout="lines", numbers=False, punctuation="standard", end="word", possessive=True),
    Choice(case="any", layout="prose", numbers=False, punctuation="full", end="word", possessive=False),
    Choice(case="auto", layout="prose", numbers=True, punctuation="standard", end="sentence", possessive=False),
)
"""Each option by itself, and a few together."""


def choice_id(choice: Choice) -> str:
    return "-".join(str(value) for value in choice.values())
