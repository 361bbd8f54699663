"""Dutch IJ and full stops of abbreviations: what masks, reader, checker, EBNF and Lark allow, and both judges."""

import llguidance
import pytest
import xgrammar

from tests.checker import unlisted_words
from tests.recogniser import Recogniser
from tests.vocab.automaton.test_random_lists import BYTES, SPELLER, read_bytes
from tests.vocab.text.test_grammar import BYTES as XGRAMMAR_BYTES
from tests.vocab.text.test_lark import tokenizer
from vocab.lists.wordlists import WordList
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.checker import TextChecker
from vocab.text.ebnf import ebnf_to_lark
from vocab.text.grammar import write_ebnf
from vocab.text.reader import TextReader

FULL = ListOptions(punctuation="full")

DUTCH = ("ijs", "ij", "bij", "IJsland", "i", "zee", "Jan")
IJ_ALLOWED = ("IJs bij ijs", "IJ", "IJsland. Bij ij", "I ijs", "IJzer. Zee", "ijs. IJs", "Jan—ijs")
IJ_REFUSED = ("Ijs", "Ij", "ijsland", "Ijsland", "iJs", "IJS", "bij. Ijs", "Ijzer", "bij IJs", "ijzee")

ENGLISH = ("the", "Mr.", "Mr", "etc.", "etc", "Fox", "cat", "e.g.", "ran")
STOPS_ALLOWED = (
    *("Mr. Fox ran", "Mr Fox ran", "the cat, etc.", "the cat, etc. ran", "the cat, etc. The cat", "E.g. the cat"),
    *("the cat (e.g. Fox) ran", "etc...", "the cat etc.?", "e.g., the cat"),
)
STOPS_REFUSED = ("mr. Fox", "e.g", "the cat, e.g The", "e.g. The", "e. g.", "the cat ran etc.the", ".etc")


def assert_all_agree(
    word_list: WordList,
    texts: dict[str, bool],
    changes: ListChanges = NO_CHANGES,
    *,
    n_words: int = 99,
    options: ListOptions = FULL,
    possessive: bool = False,
) -> None:
    """Masks, reader, EBNF and Lark say of each text what the judge says, which knows whether words take an s."""
    states = ListStates.of(word_list, options, SPELLER, n_words, changes)
    reader = TextReader(word_list, options, n_words, changes=changes)
    ebnf = write_ebnf(word_list, options, n_words, changes)
    grammar = xgrammar.GrammarCompiler(XGRAMMAR_BYTES, max_threads=1).compile_grammar(ebnf)
    lark = llguidance.LLMatcher(tokenizer(), llguidance.grammar_from("lark", ebnf_to_lark(ebnf)))
    judge = Recogniser(
        word_list.words,
        n_words,
        word_list.lang,
        punctuation=options.punctuation,
        possessive=possessive,
        extra_words=changes.extra_words,
        exclude_words=changes.exclude_words,
    )
    for text, allowed in texts.items():
        oracle, spelled = xgrammar.GrammarMatcher(grammar), list(text.encode())
        lark.reset()
        is_lark = lark.validate_tokens(spelled) == len(spelled) and lark.consume_tokens(spelled) and lark.is_accepting()
        verdicts = {
            "definition": judge.is_text(text),
            "mask": read_bytes(states, BYTES, text)[1],
            "reader": reader.is_text(text),
            "ebnf": oracle.accept_string(text) and oracle.is_completed(),
            "lark": is_lark,
        }
        assert verdicts == dict.fromkeys(verdicts, allowed), text


def test_all_agree_that_dutch_ij_has_one_capital() -> None:
    texts = {**dict.fromkeys(IJ_ALLOWED, True), **dict.fromkeys(IJ_REFUSED, False)}
    assert_all_agree(WordList("nl", DUTCH, "inline"), texts, ListChanges(("ijzer",)))
    for text, allowed in texts.items():
        unlisted = unlisted_words(text, "nl", len(DUTCH), DUTCH, extra_words=("ijzer",), case="sentence")
        assert (not unlisted) == allowed, text
    checker = TextChecker(WordList("nl", DUTCH, "inline"), ListOptions(), len(DUTCH), ListChanges(("ijzer",)))
    for text in ("Ijs", "Ij", "ijsland", "Ijsland", "bij. Ijs", "Ijzer", "ijzee"):
        assert checker.check(text).not_allowed, text
    for text in IJ_ALLOWED:
        assert not checker.check(text).not_allowed, text


@pytest.mark.parametrize("lang", ["de", "en", "tr"])
def test_elsewhere_ij_is_two_letters(lang: str) -> None:
    capital = "İjs" if lang == "tr" else "Ijs"
    word_list = WordList(lang, ("ijs", "bij"), "inline")
    assert_all_agree(word_list, {capital: True, "IJs": False, f"{capital} bij": True})


def test_all_agree_where_the_full_stop_of_an_abbreviation_ends_a_sentence() -> None:
    texts = {**dict.fromkeys(STOPS_ALLOWED, True), **dict.fromkeys(STOPS_REFUSED, False)}
    assert_all_agree(WordList("en", ENGLISH, "inline"), texts)
    for text in (*STOPS_ALLOWED, *STOPS_REFUSED[:3]):
        # The checker of words is more generous with what stands around a full stop.
        unlisted = unlisted_words(text, "en", len(ENGLISH), ENGLISH, case="sentence")
        assert (not unlisted) == texts[text], text


def test_a_sentence_may_end_in_an_abbreviation_that_is_listed_without_its_full_stop_too() -> None:
    options = ListOptions(end="sentence")
    both = TextReader(WordList("en", ENGLISH, "inline"), options, len(ENGLISH))
    one = TextReader(WordList("en", ("the", "etc.", "cat", "Fox"), "inline"), options, 4)
    for text in ("The cat, etc.", "“The cat, etc.”", "The cat, etc. The cat."):
        assert both.is_text(text), text
        assert not one.is_text(text), text
    # The reading with the better word counts: one sentence, and "Mr." and not "Mr".
    assert [(word.number, word.starts_sentence) for word in both.words("Mr. Fox ran.")] == [
        (2, True), (6, False), (9, False)
    ]  # fmt: skip
