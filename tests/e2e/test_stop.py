"""Answers that a stop string ends, within a list: whole words up to it, or with it where that was asked for."""

import re
from typing import Any, Final

import pytest

from tests.checked_lists import is_word_character
from tests.checker import assert_only_listed_words, unlisted_words
from tests.e2e.service import MODEL, Answer, Service
from tests.e2e.unspaced_answers import QUESTIONS, Question

pytestmark = pytest.mark.e2e

N_WORDS: Final = 1000
ASKED: Final = {
    "en": "Tell me a long story about a dog and his friends.",
    "es": "Cuéntame una historia larga de un perro y sus amigos.",
    "fr": "Raconte-moi une longue histoire d'un chien et de ses amis.",
    "tr": "Bana bir köpek ve arkadaşları hakkında uzun bir hikâye anlat.",
}
WITH_STOP: Final = {"include_stop_str_in_output": True}
GAP: Final = ' \n¿¡([«“„—–-"'
"""No text that a stop string cuts ends with these; at the end of one they open what would follow."""


def ask(service: Service, lang: str, *, stop: list[str] | None = None, stream: bool = False, **fields: Any) -> Answer:
    """The likeliest answer each time: with a stop string it is the beginning of the one without."""
    question = ASKED.get(lang) or QUESTIONS[lang]
    sampling = {"temperature": 0, "presence_penalty": 0, "max_tokens": 48}
    given = {} if stop is None else {"stop": stop}
    vocab: dict[str, Any] = {"lang": lang, "n_words": N_WORDS}
    if lang in ("es", "fr"):
        # With words taken back, this model's likeliest answer has no long one.
        vocab["rescue"] = False
    return service.ask(question, vocab, stream=stream, **given, **sampling, **fields)


def stops_of(text: str) -> dict[str, list[str]]:
    """Stop strings that come in a text after its first characters, by kind."""

    def is_late(stop: str) -> bool:
        return text.find(stop) > 3

    # Those behind a blank, for some of the strings begin with it.
    words = [word for word in re.findall(r"(?<= )[^\W\d_]+", text) if is_late(word)]
    long = max((word for word in words if is_late(word[1:-1]) and is_late(word[-2:])), key=len)
    mark = next(char for char in text if char in ".,!?;:" and is_late(char))
    return {
        "a mark": [mark],
        "a word": [words[0]],
        "a blank and a word": [" " + words[1]],
        "a beginning": [" " + long[:3]],
        "the middle of a word": [long[1:-1]],
        "the end of a word": [long[-2:]],
        "several": ["\n", long[1:-1], "never", mark],
    }


def expected(text: str, stop: list[str]) -> str:
    """What may stay of a text before the first stop string: whole words, and no blank or opening mark after them."""
    end = min(at for one in stop if (at := text.find(one)) >= 0)
    kept = text[:end]
    if is_word_character(text[end]):
        while kept and is_word_character(kept[-1]):
            kept = kept[:-1]
    return kept.rstrip(GAP)


@pytest.mark.fault(17)
@pytest.mark.parametrize("lang", ASKED)
def test_an_answer_is_its_text_up_to_the_stop_string(service: Service, lang: str) -> None:
    text = ask(service, lang).text
    for number, (kind, stop) in enumerate(stops_of(text).items()):
        whole, streamed = (ask(service, lang, stop=stop, stream=stream) for stream in (False, True))
        assert whole.text == streamed.text == expected(text, stop), (kind, stop, text)
        assert whole.vocab == streamed.vocab
        assert whole.finish_reason == streamed.finish_reason == "stop"
        assert_only_listed_words(whole.text, lang, N_WORDS, layout="prose")
        assert whole.vocab is not None
        assert whole.vocab["num_words"] > 0
        stayed = ask(service, lang, stop=stop, stream=number % 2 == 1, extra_body=WITH_STOP).text
        assert not unlisted_words(stayed, lang, N_WORDS), (kind, stop, stayed)
        if kind in ("a mark", "a word", "a blank and a word"):
            end = min(text.find(one) + len(one) for one in stop)
            assert stayed == text[:end], (kind, stop, text)


@pytest.mark.fault(17)
@pytest.mark.parametrize("lang", ["zh", "ja"])
def test_an_answer_without_blanks_is_whole_words_up_to_the_stop_string(service: Service, lang: str) -> None:
    text = ask(service, lang).text
    oracle = Question(lang, N_WORDS, {"end": "word", "punctuation": "none"}).oracle
    # Before each of them stands something: a model of this size writes one word again and again.
    parts = (text[start:end] for start, end in oracle.words(text))
    words = [word for word in parts if text.find(word) > 3]
    mark = next(char for char in text if char in "。，、！？…" and text.find(char) > 3)
    middle = next((word[1] for word in words if len(word) > 1 and text.find(word[1]) > 3), words[0])
    for stop in ([mark], [words[-1]], [middle], ["\n", middle, mark]):
        whole, streamed = (ask(service, lang, stop=stop, stream=stream) for stream in (False, True))
        assert whole.text == streamed.text, stop
        assert whole.text and text.startswith(whole.text), (stop, text)
        assert not set(stop) & set(whole.text)
        for part in re.split(r"[。，、；：！？…“”‘’《》（）「」『』―—\n]+", whole.text):
            assert not part or oracle.is_text(part), (stop, whole.text)
    assert ask(service, lang, stop=[mark], extra_body=WITH_STOP).text == text[: text.find(mark) + 1]


@pytest.mark.fault(17)
def test_several_answers_and_searches_end_at_the_first_mark(service: Service) -> None:
    fields: dict[str, dict[str, Any]] = {
        "n": {"n": 3},
        "best of": {"best_of": 3, "n": 2},
        "backtracking": {"n": 2, "vocab": {"rescue": 0.3}},
        "score": {"vocab": {"score": True}},
        "required words": {"vocab": {"must_use": [{"word": "house"}]}},
    }
    for name, own in fields.items():
        vocab = {"lang": "en", "n_words": N_WORDS, **own.get("vocab", {})}
        n, extra = own.get("n", 1), {"best_of": own["best_of"]} if "best_of" in own else {}
        for stream in (False, True):
            made = service.start(
                ASKED["en"],
                vocab,
                stop=[".", "?", "!", ","],
                n=n,
                seed=3,
                max_tokens=60,
                stream=stream,
                extra_body=extra,
            )
            texts = [""] * n
            if stream:
                for choice in (choice for chunk in made for choice in chunk.choices):
                    texts[choice.index] += choice.delta.content or ""
            else:
                texts = [choice.message.content for choice in made.choices]
            for text in texts:
                assert_only_listed_words(text, "en", N_WORDS, layout="prose")
                assert not set(text) & set(".?!,"), (name, text)


@pytest.mark.fault(17)
def test_a_completion_goes_on_to_the_stop_string(service: Service) -> None:
    vocab = {"lang": "en", "n_words": N_WORDS, "end": "sentence"}
    prompt = "Once upon a time there was a “small "
    for stream in (False, True):
        made: Any = service.client.completions.create(
            model=MODEL,
            prompt=prompt,
            max_tokens=60,
            stop=[".", ","],
            stream=stream,
            extra_body={"vocab": vocab},
        )
        text = "".join(chunk.choices[0].text for chunk in made) if stream else made.choices[0].text
        # A dash at its beginning stands between words.
        assert_only_listed_words(prompt + text, "en", N_WORDS, layout="prose")
