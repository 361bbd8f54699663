"""The benchmark of beams says of two searches what there is to say."""

import json
from dataclasses import replace

from benchmarks.beam_search.found import Found, Pair, comparison, parting

OURS = Found((1, 2, 3), -0.5, -1.5, frozenset({(), (1,), (2,), (1, 2), (2, 2)}))
THEIRS = Found((1, 4, 3), -0.5002, -1.5006, frozenset({(), (1,), (2,), (1, 2), (1, 4), (2, 2), (1, 4, 9)}))
EQUAL = Pair("4 beams", "Why?", OURS, replace(OURS, score=-0.50001), ("So it is.", "So it is."))
DIFFERENT = Pair("4 beams", "How?", OURS, THEIRS, ("It is.", "It was."), ours_by_them=-1.503)


def test_searches_part_where_one_first_keeps_what_the_other_does_not() -> None:
    assert parting(OURS, THEIRS) == {(1, 4)}
    assert parting(OURS, OURS) == frozenset()


def test_a_difference_is_a_near_tie_by_the_texts_found_or_where_the_searches_part() -> None:
    assert DIFFERENT.is_near_tie
    far = replace(DIFFERENT, theirs=replace(THEIRS, log_p=-1.8))
    assert not far.is_near_tie
    assert replace(far, first_gap=0.0).is_near_tie
    assert not replace(far, first_gap=0.01).is_near_tie


def test_scores_are_compared_for_one_text_only() -> None:
    assert round(EQUAL.score_difference, 9) == 1e-5
    assert round(DIFFERENT.score_difference, 9) == 0.001
    assert replace(DIFFERENT, ours_by_them=None).score_difference == 0


def test_the_summary_has_each_group_and_each_difference() -> None:
    lines = list(comparison([EQUAL, DIFFERENT]))
    assert lines[1].split() == ["4", "beams", "2", "50.0%", "1", "0", "1.0e-03"]
    assert any("a near tie" in line for line in lines)
    assert sum("It was." in line for line in lines) == 1
    assert json.loads(json.dumps(DIFFERENT.as_dict()))["is_near_tie"]
