"""The EBNF of texts without spaces, read by xgrammar, allows what the oracle allows; and what no grammar can say."""

from typing import Any

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.segmented_oracle import SegmentedOracle
from vocab.errors import OptionsError
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.grammar import write_ebnf, write_grammar

BYTES = xgrammar.TokenizerInfo(
    [bytes([byte]) for byte in range(256)], vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[0]
)
WORDS = st.text("中国ab", min_size=1, max_size=3)
ANY = ListOptions(segmentation="any")


@settings(max_examples=max(settings().max_examples // 4, 1))
@given(st.data())
def test_it_agrees_with_the_oracle_on_random_texts_of_random_lists(data: st.DataObject) -> None:
    words = data.draw(st.lists(WORDS, min_size=1, max_size=6, unique=True))
    lang = data.draw(st.sampled_from(["zh", "th"]))
    options: dict[str, Any] = {"numbers": data.draw(st.booleans()), "layout": "lines"}
    changes = ListChanges((), (words[0],) if len(words) > 1 else ())
    chosen = ListOptions(segmentation="any", **options)
    ebnf = write_ebnf(WordList(lang, tuple(words), "file"), chosen, len(words), changes)
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(BYTES, max_threads=1).compile_grammar(ebnf))
    listed = {*words} - {*changes.exclude_words}
    oracle = SegmentedOracle(lang, (), listed, "any", **options)
    part = st.sampled_from([*words, *"。…，“”—！\n.! ()1"])
    texts = data.draw(st.lists(st.lists(part, min_size=1, max_size=6).map("".join), min_size=5, max_size=20))
    for text in [*texts, *(first + second for first in words for second in words)]:
        matcher.reset()
        is_text = matcher.accept_string(text) and matcher.is_completed()
        assert is_text == oracle.is_text(text), repr(text)


def test_what_a_grammar_cannot_say_is_refused() -> None:
    word_list = WordList("zh", ("我们", "去"), "file")
    with pytest.raises(OptionsError, match="'any'"):
        write_grammar(word_list, ListOptions(), 2, NO_CHANGES, "ebnf")
    assert write_grammar(word_list, ANY, 2, NO_CHANGES, "ebnf").startswith("root ::= ")
    with pytest.raises(OptionsError, match="'ebnf'"):
        write_grammar(word_list, ANY, 2, NO_CHANGES, "lark")


SOURCES = {"zh": "CC-CEDICT", "zh-Hant": "OpenCC", "ja": "JMdict", "th": "PyThaiNLP", "en": "wordfreq", "ko": "Kiwi"}


@pytest.mark.parametrize("lang", SOURCES)
def test_a_grammar_names_the_sources_of_its_list(lang: str) -> None:
    word_list = WordList(lang, ("x",), "cleaned", (1,) if lang == "ko" else None)
    lines = write_grammar(word_list, ANY, 1, NO_CHANGES, "ebnf").split("root ::= ")[0].splitlines()
    named = " ".join(lines)
    assert SOURCES[lang] in named and "simplemma" not in named
    assert named.isascii() and max(map(len, lines)) <= 122
    assert ("wordfreq" in named) == (lang != "th") or lang == "ko"
