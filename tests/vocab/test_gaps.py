from vocab import marks
from vocab.gaps import GapAutomaton, build_gap_automaton
from vocab.options import ListOptions

PROSE = build_gap_automaton(ListOptions(), "es")


def after(automaton: GapAutomaton, state: int, text: str) -> int | None:
    for character in text:
        following = automaton.states[state].transitions.get(character)
        if following is None:
            return None
        state = following
    return state


def word_follows(text: str, automaton: GapAutomaton = PROSE) -> bool:
    state = after(automaton, automaton.after_word, text)
    return state is not None and automaton.states[state].word_may_start


def starts_sentence(text: str) -> bool:
    state = after(PROSE, PROSE.after_word, text)
    return state is not None and PROSE.states[state].starts_sentence


def test_words_are_parted_by_a_blank_a_dash_or_a_break_after_a_sentence_mark_or_colon() -> None:
    assert all(map(word_follows, [" ", "—", " — ", " – ", " - ", ".\n", ".\n\n", ":\n", '."\n', ", ", '?!" ']))
    assert not any(map(word_follows, ["", "-", "–", "\n", ",\n", ".\n\n\n", "  ", " -", " –", ". \n", "— "]))


def test_lines_allow_a_break_after_any_word_and_its_marks() -> None:
    lines = build_gap_automaton(ListOptions(layout="lines"), "es")
    assert word_follows("\n", lines)
    assert word_follows(",\n\n", lines)


def test_at_most_four_closing_and_two_opening_marks_stand_in_a_row() -> None:
    assert word_follows("...! ")
    assert not word_follows("....! ")
    assert word_follows(' ("')
    assert not word_follows(' (("')
    assert word_follows("—¿¡")
    assert not word_follows(" ——¿")


def test_a_sentence_starts_after_a_sentence_mark_and_a_space_or_after_a_line_break() -> None:
    assert all(map(starts_sentence, [". ", '.) "', "! — ¿"[:2], ":\n", ".\n", "...) ¿"]))
    assert not any(map(starts_sentence, [" ", ", ", ": ", " — ", ".—", ". — ", ". —"[:1]]))


def test_the_text_starts_with_at_most_one_blank_and_its_start_is_a_sentence_start() -> None:
    blank = after(PROSE, PROSE.start, " ")
    assert blank is not None
    assert PROSE.states[PROSE.start].starts_sentence
    assert PROSE.states[blank].starts_sentence
    assert after(PROSE, PROSE.start, "  ") is None
    assert after(PROSE, PROSE.start, ".") is None


def test_only_a_word_and_its_closing_marks_may_end_a_text() -> None:
    complete = {state for state, gap in enumerate(PROSE.states) if gap.is_complete}
    assert PROSE.after_word in complete
    assert after(PROSE, PROSE.after_word, '."') in complete
    assert after(PROSE, PROSE.after_word, " ") not in complete
    assert PROSE.start not in complete
    assert PROSE.after_elision not in complete


def test_after_an_elision_comes_a_word_and_nothing_else() -> None:
    elision = PROSE.states[PROSE.after_elision]
    assert elision.word_may_start
    assert not elision.transitions


def test_no_apostrophe_is_a_mark() -> None:
    assert not set(marks.APOSTROPHES) & set(marks.CLOSE_MARKS + marks.OPEN_MARKS)
