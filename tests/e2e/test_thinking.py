"""A model that thinks first: its thoughts are free, its answer keeps to the list and ends within its budget.

The model is the demo's, made to think (``tests.thinking_model``).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.checker import assert_only_listed_words, unlisted_words
from tests.e2e.service import MODEL, Service, running
from tests.harness import Demo
from tests.thinking_model import END, THINKING, write_thinking_model

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

LISTED: dict[str, Any] = {"lang": "en", "n_words": 1000}
QUESTION = "Tell me a story about a dog."


@pytest.fixture(scope="module")
def thinker(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("thinker")
    write_thinking_model(smollm2_path, folder / MODEL)
    engine_kwargs = {
        "enforce_eager": True, "max_model_len": 2048, "max_num_seqs": 16, "reasoning_parser": THINKING,
    }  # fmt: skip
    args = {"prebuild_langs": [], "engine_kwargs": engine_kwargs}
    with running(Demo(str(folder / MODEL), folder, args)) as service:
        yield service


def ask(thinker: Service, *, stream: bool, **fields: Any) -> tuple[str, str, str, Any]:
    """What was thought and answered, why it ended, and how many tokens it took."""
    options = {"stream_options": {"include_usage": True}} if stream else {}
    made = thinker.start(QUESTION, LISTED, stream=stream, **options, **fields)
    if not stream:
        [choice] = made.choices
        thoughts = (choice.message.model_extra or {}).get("reasoning")
        return thoughts or "", choice.message.content or "", choice.finish_reason, made.usage
    thoughts, text, finish_reason, usage = "", "", "", None
    for chunk in made:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            thoughts += (choice.delta.model_extra or {}).get("reasoning") or ""
            text += choice.delta.content or ""
            finish_reason = choice.finish_reason or finish_reason
    return thoughts, text, finish_reason, usage


def test_thoughts_are_free_and_every_answer_is_whole_sentences_of_the_list(thinker: Service) -> None:
    def one(number: int) -> tuple[str, str, bool]:
        # Some end their thinking themselves, and some are made to.
        fields: dict[str, Any] = {"logit_bias": {str(END): 12}} if number % 3 == 0 else {}
        max_tokens = 12 + 3 * number
        thoughts, text, finish_reason, usage = ask(
            thinker, stream=number % 2 == 0, max_tokens=max_tokens, temperature=0.8, seed=number, **fields
        )
        # A model may also end its turn in the middle of its thoughts, and then answers nothing.
        assert text or finish_reason == "stop", (max_tokens, thoughts)
        if text:
            assert_only_listed_words(text, "en", 1000, end="sentence")
        assert usage.completion_tokens <= max_tokens
        return thoughts, text, finish_reason == "length"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(24)))
    assert sum(bool(text) for _, text, _ in answers) > len(answers) / 2
    assert any(unlisted_words(thoughts, "en", 1000) for thoughts, _, _ in answers)
    assert any(was_cut for _, _, was_cut in answers)


def test_a_stream_is_the_whole_answer(thinker: Service) -> None:
    whole, streamed = (ask(thinker, stream=stream, max_tokens=40, temperature=0) for stream in (False, True))
    assert streamed[:3] == whole[:3]


def test_a_client_may_want_few_thoughts_or_none_shown(thinker: Service) -> None:
    fields: dict[str, Any] = {"max_tokens": 40, "temperature": 0}
    for stream in (False, True):
        thoughts, text, _, _ = ask(thinker, stream=stream, **fields)
        hidden = ask(thinker, stream=stream, extra_body={"vocab": LISTED, "include_reasoning": False}, **fields)
        assert hidden[:2] == ("", text)
        few, _, _, _ = ask(thinker, stream=stream, extra_body={"vocab": LISTED, "thinking_token_budget": 4}, **fields)
        assert len(few) < len(thoughts) / 2


def test_a_switch_of_the_template_turns_thinking_off_and_others_are_refused(thinker: Service) -> None:
    switched = {"vocab": LISTED, "chat_template_kwargs": {"enable_thinking": False}}
    for stream in (False, True):
        thoughts, text, _, _ = ask(thinker, stream=stream, max_tokens=30, temperature=0, extra_body=switched)
        assert_only_listed_words(text, "en", 1000, end="sentence")
        assert (thoughts, bool(text)) == ("", True)
    with pytest.raises(openai.BadRequestError, match="template are enable_thinking"):
        ask(thinker, stream=False, extra_body={"chat_template_kwargs": {"tokenize": False}})
