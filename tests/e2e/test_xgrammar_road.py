"""The same promise with the mask engine xgrammar: the list compiled to a grammar, a last partial word trimmed.

It is set, or taken for a model whose tokenizer has no fast implementation.
"""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.checker import assert_only_listed_words
from tests.e2e import test_list_options, test_service
from tests.e2e.compile_counter import counted_compiles
from tests.e2e.service import LISTS, MODEL, Service, Vocabulary, running
from tests.e2e.test_service import QUESTIONS
from tests.harness import Demo
from tests.slow_tokenizer import write_slow_tokenizer

pytestmark = [pytest.mark.e2e, pytest.mark.stress]


@pytest.fixture(scope="module")
def compiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], list[str]]]:
    with counted_compiles(tmp_path_factory.mktemp("counter")) as read:
        yield read


@pytest.fixture(scope="module", params=["set", "taken"])
def own_service(
    request: pytest.FixtureRequest,
    smollm2_path: Path,
    wordlist_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    compiles: Callable[[], list[str]],
) -> Iterator[Service]:
    """An application with the mask engine xgrammar: with the demo's model, and with a slow tokenizer in its folder."""
    folder = tmp_path_factory.mktemp("service")
    args: dict[str, Any] = {"wordlist_dir": str(wordlist_dir), "prebuild_langs": []}
    if request.param == "set":
        model = smollm2_path
        args["mask_engine"] = "xgrammar"
    else:
        model = folder / MODEL
        model.mkdir()
        for path in smollm2_path.iterdir():
            if not path.name.startswith("tokenizer"):
                (model / path.name).symlink_to(path)
        write_slow_tokenizer(model)
    with running(Demo(str(model), folder, args)) as service:
        assert ("has no fast implementation" in service.log_path.read_text()) == (request.param == "taken")
        yield service


class EndingAnywhere(Service):
    """Asks for texts that end with any word: of one that is cut before its first sentence's end nothing is left."""

    def start(self, question: str, vocabulary: Vocabulary = None, **fields: Any) -> Any:
        if isinstance(vocabulary, tuple):
            vocabulary = dict(zip(("lang", "n_words"), vocabulary, strict=True))
        return super().start(question, vocabulary and {"end": "word", **vocabulary}, **fields)


@pytest.fixture(scope="module")
def service(own_service: Service) -> Service:
    """For the tests of the promise itself, which follow."""
    return EndingAnywhere(own_service.url, own_service.client, own_service.log_path)


test_a_stop_string_leaves_no_part_of_a_word = test_service.test_a_stop_string_leaves_no_part_of_a_word
test_a_list_file_with_odd_words_works = test_service.test_a_list_file_with_odd_words_works
test_an_unlisted_prefix_of_a_listed_word_never_appears = (
    test_service.test_an_unlisted_prefix_of_a_listed_word_never_appears
)
test_an_unlisted_token_cannot_be_forced_by_a_bias = test_service.test_an_unlisted_token_cannot_be_forced_by_a_bias
test_special_tokens_in_a_prompt_are_text = test_service.test_special_tokens_in_a_prompt_are_text
test_callers_of_a_new_list_share_one_compile = test_service.test_callers_of_a_new_list_share_one_compile
test_words_made_of_operators_are_written_as_they_are = (
    test_list_options.test_words_made_of_operators_are_written_as_they_are
)


def test_no_replica_compiles_a_list(own_service: Service, compiles: Callable[[], list[str]]) -> None:
    answer = own_service.ask("Hello", {"lang": "es", "n_words": 77, "end": "word"}, max_tokens=8)
    assert_only_listed_words(answer.text, "es", 77)
    of_lists = [line for line in compiles() if line.startswith("compile_grammar")]
    assert len(of_lists) >= 2, "the list of the start-up proof, and this one"
    assert all("-m vocab.compiler.worker" in line for line in of_lists), of_lists
    # What it does compile is counted.
    own_service.start("Hello", max_tokens=8, extra_body={"structured_outputs": {"regex": "yes|no"}})
    assert any("EngineCore" in line for line in compiles() if line.startswith("compile_regex"))


def test_a_list_beyond_what_compiles_is_refused_and_others_go_on(own_service: Service) -> None:
    with pytest.raises(openai.BadRequestError, match="ask for fewer words") as error:
        own_service.ask("Hello", {"lang": "en", "n_words": 20_000, "end": "word"}, max_tokens=8)
    assert error.value.param == "vocab.lang"
    answer = own_service.ask("Hello", {"lang": "en", "n_words": 100, "end": "word"}, max_tokens=8)
    assert_only_listed_words(answer.text, "en", 100)


def test_twenty_answers_have_listed_words_only_and_whole(own_service: Service) -> None:
    every = list(itertools.product((100, 1000), (False, True), (0.0, 1.0), QUESTIONS))
    cases = [(lang, n_words, stream, temperature) for n_words, stream, temperature, lang in every][-20:]

    def ask(case: tuple[str, int, bool, float]) -> None:
        lang, n_words, stream, temperature = case
        # This engine does not count tokens: of an answer cut before its first sentence's end nothing would be left.
        vocab = {"lang": lang, "n_words": n_words, "end": "word"}
        answer = own_service.ask(QUESTIONS[lang], vocab, stream=stream, temperature=temperature, max_tokens=25, seed=1)
        assert_only_listed_words(answer.text, lang, n_words)
        assert answer.vocab is not None
        assert answer.vocab["max_rank"] <= n_words

    with ThreadPoolExecutor(8) as pool:
        for done in pool.map(ask, cases):
            assert done is None


def test_answers_keep_to_options_and_changes_and_end_with_whole_sentences(own_service: Service) -> None:
    options = {
        "numbers": True,
        "punctuation": "basic",
        "layout": "lines",
        "end": "sentence",
        "extra_words": ["Zaragoza"],
        "exclude_words": ["the"],
    }

    def ask(number: int) -> None:
        answer = own_service.ask(
            "Write three short sentences about Zaragoza.",
            {"lang": "en-school", "n_words": 400, **options},
            stream=number % 2 == 0,
            temperature=1,
            max_tokens=40,
            seed=number,
        )
        # A budget that the grammar does not see may end before the first sentence does: then there is no text.
        if answer.text:
            assert_only_listed_words(
                answer.text,
                "en-school",
                400,
                LISTS["en-school"],
                numbers=True,
                punctuation="basic",
                end="sentence",
                extra_words=["Zaragoza"],
                exclude_words=["the"],
            )

    with ThreadPoolExecutor(8) as pool:
        for done in pool.map(ask, range(10)):
            assert done is None


def test_what_a_grammar_cannot_say_is_refused_and_the_best_of_several_is_not(own_service: Service) -> None:
    vocab = {"lang": "en", "n_words": 100, "end": "word"}
    for field, value in (("num_beams", 2), ("no_repeat_ngram_size", 4)):
        with pytest.raises(openai.BadRequestError) as error:
            own_service.ask("Hello", vocab, max_tokens=9, extra_body={field: value})
        assert error.value.param == field
        assert "xgrammar" in str(error.value)
    answer = own_service.ask("Hello", vocab, max_tokens=20, seed=1, extra_body={"best_of": 2})
    assert_only_listed_words(answer.text, "en", 100)
