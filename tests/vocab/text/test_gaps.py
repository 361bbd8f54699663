"""What may stand between words, with each option."""

from typing import Any

from vocab import marks
from vocab.options import ListOptions
from vocab.text.gaps.automaton import GapAutomaton, build_gap_automaton

PROSE = build_gap_automaton(ListOptions(punctuation="full"), "es")


def after(automaton: GapAutomaton, state: int, text: str) -> int | None:
    for character in text:
        following = automaton.states[state].transitions.get(character)
        if following is None:
            return None
        state = following
    return state


def word_follows(text: str, automaton: GapAutomaton = PROSE) -> bool:
    state = after(automaton, automaton.contexts[0].after_word, text)
    return state is not None and automaton.states[state].word_may_start


def starts_sentence(text: str) -> bool:
    state = after(PROSE, PROSE.contexts[0].after_word, text)
    return state is not None and PROSE.states[state].starts_sentence


def test_words_are_parted_by_a_blank_a_dash_or_a_break_after_a_sentence_mark_or_colon() -> None:
    assert all(map(word_follows, [" ", "—", " — ", " – ", " - ", ".\n", ".\n\n", ":\n", '."\n', ", ", '?!" ']))
    assert not any(map(word_follows, ["", "-", "–", "\n", ",\n", ".\n\n\n", "  ", " -", " –", ". \n", "— "]))


def test_lines_allow_a_break_after_any_word_and_its_marks() -> None:
    lines = build_gap_automaton(ListOptions(layout="lines", punctuation="full"), "es")
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
    assert PROSE.contexts[0].after_word in complete
    assert after(PROSE, PROSE.contexts[0].after_word, '."') in complete
    assert after(PROSE, PROSE.contexts[0].after_word, " ") not in complete
    assert PROSE.start not in complete
    assert PROSE.contexts[0].after_elision not in complete


def test_after_an_elision_comes_a_word_and_nothing_else() -> None:
    elision = PROSE.states[PROSE.contexts[0].after_elision]
    assert elision.word_may_start
    assert not elision.transitions


def test_no_apostrophe_is_a_mark() -> None:
    assert not set(marks.APOSTROPHES) & set(marks.CLOSE_MARKS + marks.OPEN_MARKS)


def automaton_of(language: str = "es", **options: Any) -> GapAutomaton:
    return build_gap_automaton(ListOptions(**{"punctuation": "full", **options}), language)


def may_end(text: str, automaton: GapAutomaton) -> bool:
    """Whether a text may end with ``text`` behind a word."""
    state = after(automaton, automaton.contexts[0].after_word, text)
    return state is not None and automaton.states[state].is_complete


def test_the_case_and_the_language_change_no_state_of_full_punctuation() -> None:
    assert automaton_of("en", case="sentence", punctuation="standard") is automaton_of("en", punctuation="standard")
    assert automaton_of("en", case="sentence") is automaton_of("hi", case="listed")


def test_places_within_a_sentence_and_at_its_start_are_always_told_apart() -> None:
    for punctuation in ("full", "basic"):
        gaps = automaton_of(case="listed", punctuation=punctuation)
        within, starting = after(gaps, gaps.contexts[0].after_word, " "), after(gaps, gaps.contexts[0].after_word, ". ")
        assert within is not None
        assert starting is not None
        assert not gaps.states[within].starts_sentence
        assert gaps.states[starting].starts_sentence


def test_basic_marks_are_few_and_those_of_the_language() -> None:
    basic = automaton_of(punctuation="basic")
    assert all(word_follows(text, basic) for text in (" ", ". ", "?! ", ", ", "… ¿", " ¡", ".\n"))
    assert not any(word_follows(text, basic) for text in ("—", " - ", ": ", ":\n", '." ', " (", "؟ ", "। ", "; "))
    assert word_follows("؟ ", automaton_of("fa", punctuation="basic"))
    assert word_follows("، ", automaton_of("ur", punctuation="basic"))
    assert word_follows("। ", automaton_of("ne", punctuation="basic"))
    assert not word_follows("، ", automaton_of("hi", punctuation="basic"))


def test_standard_marks_are_those_of_the_language() -> None:
    english, spanish, german = (automaton_of(lang, punctuation="standard") for lang in ("en", "es", "de"))
    for standard in (english, spanish, german):
        assert all(
            word_follows(text, standard) for text in (" ", ". ", ", ", "; ", ": ", "—", " – ", " - ", "?\n", ":\n\n")
        )
        assert not any(word_follows(text, standard) for text in (" [", " —", "—(—", " ‘", "] ", "» ", "” ", '" ', ") "))
    assert [word_follows(" ¿¡", standard) for standard in (english, spanish, german)] == [False, True, False]
    assert [word_follows(" “", standard) for standard in (english, spanish, german)] == [True, True, False]
    assert [word_follows(" „", standard) for standard in (english, spanish, german)] == [False, False, True]
    assert [word_follows(" «", standard) for standard in (english, spanish, german)] == [False, True, False]
    assert not word_follows(" ¿¿", spanish)
    assert may_end(";", automaton_of("el", punctuation="standard", end="sentence"))
    assert not may_end(";", automaton_of("en", punctuation="standard", end="sentence"))
    assert may_end("۔", automaton_of("ur", punctuation="standard", end="sentence"))


def test_behind_a_word_stand_one_pause_one_sentence_mark_or_an_ellipsis() -> None:
    standard = automaton_of("en", punctuation="standard")
    assert all(may_end(text, standard) for text in ("", ",", ":", ".", "...", "…", "?!", "!?", " (a"[:0]))
    assert not any(
        may_end(text, standard) for text in ("..", "....", ".,", ",,", ",.", "??", "!!", "?!?", ".…", ";:", " .")
    )


def test_a_pair_is_closed_before_the_text_ends_and_never_empty() -> None:
    standard = automaton_of("en", punctuation="standard")
    opened = after(standard, standard.contexts[0].after_word, ' "')
    assert opened is not None
    context = standard.states[opened].context
    inside = standard.contexts[context].after_word
    assert context != 0
    assert standard.states[opened].word_may_start
    assert after(standard, opened, '"') is None
    assert not standard.states[inside].is_complete
    assert after(standard, inside, ". (") is not None
    assert after(standard, inside, ' "') is None
    closed = [after(standard, inside, text) for text in ('"', '".', '."', '?!",', '",', '?"')]
    assert all(state is not None and standard.states[state].is_complete for state in closed)
    assert not any(after(standard, inside, text) for text in ('"".', '.".', ',".', ",”", ".)", '",,'))


def test_only_two_pairs_of_different_kinds_are_open_at_once() -> None:
    standard = automaton_of("es", punctuation="standard")
    assert word_follows(' ("', standard)
    assert word_follows(" «“", standard)
    assert not any(word_follows(text, standard) for text in (" ((", ' ""', ' ("«', " ««"))
    # Nothing, each of four kinds, and each of the others inside of it.
    assert len(standard.contexts) == 1 + 4 + 4 * 3
    assert len(automaton_of("de", punctuation="standard").contexts) == 1 + 3 + 3 * 2
    assert len(automaton_of("es").contexts) == 1


def test_a_sentence_in_a_pair_starts_like_any_other() -> None:
    standard = automaton_of("en", punctuation="standard")
    for text, starts in ((' "', False), ('. "', True), ('? ("', True), (', "', False)):
        state = after(standard, standard.contexts[0].after_word, text)
        assert state is not None
        assert standard.states[state].starts_sentence is starts
    inside = standard.contexts[1].after_word
    for text, starts in ((". ", True), (" ", False)):
        state = after(standard, inside, text)
        assert state is not None
        assert standard.states[state].starts_sentence is starts


def test_the_states_are_few() -> None:
    """Words are there once for each context, and frames of marks once for each state."""
    states = {lang: len(automaton_of(lang, punctuation="standard").states) for lang in ("en", "es", "de", "fr", "fa")}
    assert states == {"en": 165, "es": 346, "de": 145, "fr": 155, "fa": 244}


def test_without_punctuation_there_is_a_blank_and_in_lines_a_break() -> None:
    none, lines = automaton_of(punctuation="none"), automaton_of(punctuation="none", layout="lines")
    assert word_follows(" ", none)
    assert not any(word_follows(mark, none) for mark in marks.CLOSE_MARKS + marks.OPEN_MARKS + "\n")
    assert word_follows("\n\n", lines)
    assert not word_follows(".\n", lines)
    assert may_end("", none)


def test_a_number_stands_where_a_word_stands_and_ends_like_one() -> None:
    numbers = automaton_of(numbers=True)
    for text in (" 3", " (1,000.50", "—10:30", ". 50%", " 3.", " 3. 4", " 1234567890123456", ' 3."', " 3%,"):
        assert may_end(text, numbers), text
    for text in ("3", ".3", " 3 ", " %", " 3%%", " 12345678901234567", " 3,.4", " 3..4", " 3's", "'3", " ٣"):
        assert not may_end(text, numbers), text
    assert after(numbers, numbers.start, "3") is not None
    assert after(numbers, numbers.contexts[0].after_elision, "3") is None
    assert after(PROSE, PROSE.start, "3") is None
    assert word_follows(" 3. ", numbers)


def test_a_number_that_cannot_go_on_within_its_length_is_not_begun() -> None:
    numbers = automaton_of(numbers=True, punctuation="none")
    assert after(numbers, numbers.start, "12345678901234.") is not None
    assert after(numbers, numbers.start, "123456789012345.") is None
    assert after(numbers, numbers.start, "1234567890123456%") is None


def test_whole_sentences_end_with_a_sentence_mark_and_what_closes_it() -> None:
    sentences = automaton_of(end="sentence")
    assert all(may_end(text, sentences) for text in (".", "?!", '."', ".)]»", '".', ".,!", "…"))
    assert not any(may_end(text, sentences) for text in ("", ",", ".,", ".:", '.,"', ":", '"', ". ", ".\n"))
    assert may_end(" 3.", automaton_of(end="sentence", numbers=True))
    assert not may_end(" 3", automaton_of(end="sentence", numbers=True))
    assert not sentences.states[sentences.contexts[0].after_possessable].is_complete


def test_where_texts_end_changes_nothing_else() -> None:
    words, sentences = automaton_of(), automaton_of(end="sentence")
    for text in (". ", "., ", ".—", ":\n", ".,\n", " ", '." — ('):
        assert word_follows(text, words) == word_follows(text, sentences)
        ours, theirs = (
            after(words, words.contexts[0].after_word, text),
            after(sentences, sentences.contexts[0].after_word, text),
        )
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert words.states[ours].starts_sentence == sentences.states[theirs].starts_sentence
