import numpy as np
import pytest

from vocab.exclusion.joints import Joints
from vocab.exclusion.watch import AT_START, FOUND, OUTSIDE, Watch, build_watch, disturbs, step
from vocab.lists.stored_words import spell


def watch_of(*forms: str, language: str = "es") -> Watch:
    return build_watch(forms, Joints.of(language))


def run(watch: Watch, text: str) -> tuple[int, int]:
    """Where a text leads, and how often it holds an excluded word before a joint."""
    state, num_found = AT_START, 0
    for byte in text.encode():
        result = step(watch.step_start, watch.step_bytes, watch.step_results, watch.other_steps, state, byte)
        state, num_found = result & ~FOUND, num_found + (result & FOUND > 0)
    return state, num_found


@pytest.mark.parametrize(
    ("text", "num_found"),
    [
        ("sol.", 1),
        (" sol, ", 1),
        ("el sol\n¡sol! sol—", 3),
        ("«sol»", 1),
        ("“sol” ", 1),
        ("sol", 0),
        ("sola. soles. elsol. so. solsol.", 0),
        ("sol's.", 0),
        ("mar—mar ", 2),
        ("ñu، ñu؟", 2),
        ("ñuñu.", 0),
    ],
)
def test_finds_words_between_joints(text: str, num_found: int) -> None:
    assert run(watch_of("sol", "mar", "ñu"), text)[1] == num_found


def test_a_word_that_begins_another_is_found_by_itself() -> None:
    watch = watch_of("so", "sol")
    assert run(watch, "so sol so. sola ")[1] == 3
    assert watch.has_word[run(watch, "el so")[0]]
    assert watch.has_word[run(watch, "el sol")[0]]
    assert not watch.has_word[run(watch, "el sola")[0]]


def test_the_possessive_ends_an_english_word_and_the_elision_comes_before_a_french_one() -> None:
    assert run(watch_of("dog", language="en"), "dog's dog’s dog'd")[1] == 2
    assert run(watch_of("un", language="fr"), "l'un. l’un. un'l")[1] == 2
    assert run(watch_of("un"), "l'un. un'l")[1] == 0


def test_the_first_bytes_of_a_joint_are_remembered() -> None:
    watch = watch_of("sol")
    # The three bytes of an ellipsis.
    state, _ = run(watch, "sol")
    seen = []
    for byte in "…".encode():
        result = step(watch.step_start, watch.step_bytes, watch.step_results, watch.other_steps, state, byte)
        seen.append((bool(watch.has_word_before[result & ~FOUND]), result & FOUND > 0))
        state = result & ~FOUND
    assert seen == [(True, False), (True, False), (False, True)]
    begun, _ = run(watch, "x")
    assert begun == OUTSIDE
    assert watch.without_word[run(watch, "sol")[0]] == OUTSIDE


@pytest.mark.parametrize(
    ("entries", "excluded", "expected"),
    [
        (("sol", "sola", "el"), ("sol",), False),
        (("sol", "por el sol"), ("sol",), True),
        (("sol", "sol de mar"), ("sol",), True),
        (("sol", "sol."), ("sol",), True),
        (("sola", "el"), ("sol",), False),
        (("sol",), (), True),
        (("sol", "solo", "so"), ("sol",), False),
    ],
)
def test_entries_that_hold_an_excluded_word_disturb(
    entries: tuple[str, ...], excluded: tuple[str, ...], expected: bool
) -> None:
    assert disturbs(watch_of("sol"), spell(entries), frozenset(excluded)) == expected


def test_no_forms_find_nothing() -> None:
    watch = watch_of()
    assert run(watch, "el sol. ")[1] == 0
    assert not np.any(watch.has_word[: AT_START + 1])
    assert not disturbs(watch, spell(("sol",)), frozenset())
