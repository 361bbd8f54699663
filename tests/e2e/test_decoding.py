"""Every way of choosing a text keeps to the list on the real stack, and says what it cost."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx2
import openai
import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, MODEL, Service

pytestmark = pytest.mark.e2e

NUM_ANSWERS: Final = 6

METHODS: Final[dict[str, dict[str, Any]]] = {
    "beams": {"num_beams": 4},
    "best three of many beams": {"num_beams": 10, "n": 3, "length_penalty": 0.8, "early_stopping": True},
    "beams that do not repeat themselves": {"num_beams": 3, "no_repeat_ngram_size": 2},
    "candidates by likelihood": {"best_of": 4, "temperature": 0.7},
    "two candidates by posterior": {"best_of": 4, "n": 2, "vocab": {"select": "posterior"}},
    "candidates up to a stop string": {"best_of": 3, "stop": [","]},
    "sentences by posterior": {"vocab": {"search": {"width": 3}, "select": "posterior"}},
    "sentences by likelihood": {"vocab": {"search": {"width": 3}, "end": "sentence"}},
    "words taken back": {"n": 2, "vocab": {"rescue": 0.3, "score": True}},
    "no field at all": {"vocab": {"score": True}},
    "a sample that may repeat itself": {"vocab": {"score": True}, "temperature": 0.7, "no_repeat_ngram_size": 0},
    "the likeliest token each time": {"vocab": {"score": True}, "temperature": 0},
    "a sample that does not repeat itself": {"no_repeat_ngram_size": 3, "vocab": {"score": True}},
}

QUESTIONS: Final = {"en": ("Tell me about the sea.", "What is love?"), "es": ("Háblame del mar.", "¿Qué es el amor?")}


def ask(service: Service, method: str, number: int) -> tuple[list[str], dict[str, Any], str, int]:
    """The texts of one answer, its ``vocab`` block, and the list that it was asked for."""
    randomness = random.Random(number)
    lang, n_words = randomness.choice(sorted(QUESTIONS)), randomness.choice((100, 1000, 3000))
    fields = dict(METHODS[method])
    vocab = {"lang": lang, "n_words": n_words, **fields.pop("vocab", {})}
    n, stop = fields.pop("n", 1), fields.pop("stop", None)
    answer = service.start(
        randomness.choice(QUESTIONS[lang]),
        max_tokens=randomness.randint(6, 30),
        seed=number,
        stream=number % 2 == 1,
        n=n,
        **({"stop": stop} if stop else {}),
        extra_body={"vocab": vocab, **fields},
    )
    if number % 2 == 0:
        return [choice.message.content for choice in answer.choices], answer.model_extra["vocab"], lang, n_words
    texts, block = [""] * n, dict[str, Any]()
    for chunk in answer:
        block = (chunk.model_extra or {}).get("vocab") or block
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    return texts, block, lang, n_words


@pytest.mark.parametrize("first", [0, pytest.param(NUM_ANSWERS, marks=pytest.mark.stress)])
@pytest.mark.parametrize("method", METHODS)
def test_every_answer_has_listed_words_only_and_says_what_it_cost(service: Service, method: str, first: int) -> None:
    end = METHODS[method].get("vocab", {}).get("end", "word")
    may_be_empty = "stop" in METHODS[method]

    def check(number: int) -> None:
        texts, block, lang, n_words = ask(service, method, number)
        for text in texts:
            if text or not may_be_empty:
                assert_only_listed_words(text, lang, n_words, end=end, layout="prose")
        if block["num_words"] and texts[0]:
            assert block["log_mass_per_word"] >= 0
            assert 0 < block["bits_per_char"] < 30
        assert block["generated_tokens"] >= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, range(first, first + NUM_ANSWERS)))


def test_beams_find_the_same_texts_again_and_no_text_twice(service: Service) -> None:
    fields = {"num_beams": 4, "vocab": {"lang": "en", "n_words": 1000}}
    # A cached prefix changes the last digits of the logits, so all have one. What shares a step changes them too, and
    # depends on when the beams come to the engine: beams that are as likely may change places.
    service.ask("Tell me about the sea.", ("en", 1000), max_tokens=4)
    first, *others = (
        service.start("Tell me about the sea.", max_tokens=12, n=4, temperature=0, extra_body=fields) for _ in range(4)
    )
    texts = [choice.message.content for choice in first.choices]
    assert len(set(texts)) == len(texts) == 4
    assert texts in [[choice.message.content for choice in again.choices] for again in others]
    assert first.usage.completion_tokens <= 4 * 12 < first.model_extra["vocab"]["generated_tokens"] * 4


def test_a_search_is_streamed_by_sentences(service: Service) -> None:
    fields = {"vocab": {"lang": "en", "n_words": 1000, "search": {"width": 2}}}
    chunks = service.start(
        "Tell me a story of five short sentences.", max_tokens=60, stream=True, seed=3, extra_body=fields
    )
    parts = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert len(parts) > 1
    assert all(part.rstrip()[-1] in ".!?…" for part in parts[:-1])


def test_words_are_taken_back_by_default_where_a_tokenizer_splits_them(service: Service) -> None:
    """The same in a stream and whole, with penalties, biases and log probabilities, and alike at the same seed."""
    vocab: dict[str, Any] = {"lang": "es", "n_words": 1000}
    ways: list[dict[str, Any]] = [{}, {"presence_penalty": 0.5, "logit_bias": {"17": 5}}, {"n": 3}]
    ways.append({"logprobs": True, "top_logprobs": 2})
    num_words = 0
    for seed, fields in enumerate(ways):
        asked: dict[str, Any] = {"max_tokens": 40, "seed": seed, "extra_body": {"vocab": vocab}, **fields}
        whole = service.start("Háblame de tu familia.", **asked)
        block = whole.model_extra["vocab"]
        num_words += block["rescue"]["num_words"]
        assert block["rescue"]["num_tokens"] >= block["rescue"]["num_words"]
        assert whole.usage.completion_tokens <= 40 * fields.get("n", 1)
        for choice in whole.choices:
            assert_only_listed_words(choice.message.content, "es", 1000, end="sentence", layout="prose")
            if choice.logprobs is not None:
                tokens = "".join(entry.token for entry in choice.logprobs.content)
                assert tokens.removesuffix("<|im_end|>") == choice.message.content
        texts = [""] * len(whole.choices)
        for chunk in service.start("Háblame de tu familia.", stream=True, **asked):
            streamed = (chunk.model_extra or {}).get("vocab")
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        assert texts == [choice.message.content for choice in whole.choices]
        assert streamed == block
    assert num_words > 0
    for other in ({**vocab, "rescue": False}, {"lang": "en", "n_words": 1000}):
        answer = service.start("Hello", max_tokens=10, extra_body={"vocab": other})
        assert "rescue" not in answer.model_extra["vocab"]


def test_what_was_not_asked_for_is_not_said(service: Service) -> None:
    block = service.start("Hello", max_tokens=6, extra_body={"vocab": {"lang": "en", "n_words": 100}}).model_extra
    assert block is not None
    assert "log_mass_per_word" not in block["vocab"]


def test_a_score_leaves_the_clients_own_logprobs_alone(service: Service) -> None:
    fields = {"vocab": {"lang": "en", "n_words": 1000, "score": True}}
    silent = service.start("Hello", max_tokens=6, temperature=0, extra_body=fields)
    assert silent.choices[0].logprobs is None
    telling = service.start("Hello", max_tokens=6, temperature=0, logprobs=True, top_logprobs=3, extra_body=fields)
    content = telling.choices[0].logprobs.content
    assert [len(entry.top_logprobs) for entry in content] == [3] * len(content)
    bits = -sum(entry.logprob for entry in content) / 0.6931471805599453 / len(telling.choices[0].message.content)
    # An end token is scored, and has no text, so no entry.
    assert telling.model_extra["vocab"]["bits_per_char"] >= bits - 1e-3


@pytest.mark.parametrize("fields", [{"num_beams": 3}, {"best_of": 3}, {"num_beams": 4, "n": 2}])
def test_free_text_is_searched_too(service: Service, fields: dict[str, Any]) -> None:
    answer = service.start("What is the capital of France?", max_tokens=12, extra_body=fields)
    assert len(answer.choices) == fields.get("n", 1)
    assert all(choice.message.content for choice in answer.choices)
    assert "vocab" not in (answer.model_extra or {})


@pytest.mark.parametrize(
    "fields", [{"num_beams": 0}, {"num_beams": 17}, {"num_beams": "x"}, {"best_of": 4, "num_beams": 4}]
)
def test_bad_values_are_refused(service: Service, fields: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError):
        service.start("Hello", max_tokens=6, extra_body=fields)


@pytest.mark.fault(36)
def test_clients_that_leave_hold_no_sequence(service: Service) -> None:
    """Ten times eight beams are more than the 64 sequences that run at once: the next request would be refused."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Tell me a long story."}],
        "max_tokens": 400,
        "num_beams": 8,
        "vocab": {"lang": "en", "n_words": 1000},
    }
    for stream in (False, True) * 5:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(
                f"{service.url}/v1/chat/completions",
                json=body | {"stream": stream},
                headers={"Authorization": f"Bearer {KEY}"},
                timeout=1,
            )
    answer = service.ask("Hello", ("en", 1000), max_tokens=8, extra_body={"num_beams": 8})
    assert_only_listed_words(answer.text, "en", 1000)
