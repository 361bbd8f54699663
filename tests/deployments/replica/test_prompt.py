"""What the model is told of its vocabulary, and where it stands."""

from copy import deepcopy
from itertools import product
from typing import Any

from transformers import AutoTokenizer

from deployments.replica.engine import configuration
from deployments.replica.prompt import (
    ENGLISH,
    SIMPLE_WORDS_HINTS,
    drop_oldest_turns,
    hint_line,
    takes_system_messages,
    template_switches,
    with_line,
)
from deployments.settings.service import Settings
from vocab.lists.wordlists import known_languages

LINE = "Use short words."
USER = {"role": "user", "content": "Hello"}


def test_every_built_in_list_has_a_line_of_its_own_language_and_any_other_the_english_one() -> None:
    for lang in known_languages(None):
        assert (hint_line(lang) == ENGLISH) == (lang == "en")
        assert "\n" not in hint_line(lang)
        assert hint_line(lang, n_words=1000) == f"{hint_line(lang)} (top-1000)"
    assert hint_line("es") == hint_line("es-MX") == hint_line("es_basic") == SIMPLE_WORDS_HINTS["es"]
    assert (hint_line("no"), hint_line("tl")) == (hint_line("nb"), hint_line("fil"))
    for other in (None, "en", "en_basic", "xx", "mylist", "sr"):
        assert hint_line(other) == ENGLISH


def test_the_line_ends_a_system_message_or_stands_before_the_users_first_text() -> None:
    assistant, system = {"role": "assistant", "content": "Yes?"}, {"role": "system", "content": LINE}
    parts = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}]
    hinted, later = {"role": "user", "content": f"{LINE}\n\nHello"}, [USER, {"role": "system", "content": "Be kind."}]
    asked: list[tuple[list[dict[str, Any]], bool, list[dict[str, Any]]]] = [
        ([USER], True, [system, USER]),
        (later, True, [system, *later]),
        ([assistant, USER, assistant, USER], False, [assistant, hinted, assistant, USER]),
        ([{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], False, [hinted]),
        ([assistant], False, [assistant]),
    ]
    joined = (("Be kind.", f"Be kind.\n{LINE}"), (parts, f"Be kind.\nBe brief.\n{LINE}"))
    for role, takes_system in product(("system", "developer"), (True, False)):
        for content, expected in (*joined, ("", LINE), ([], LINE), (None, LINE)):
            own = {"role": role, "content": content, "name": "n"}
            asked.append(([own, USER], takes_system, [{**own, "content": expected}, USER]))
    faults = []
    for messages, takes_system, result in asked:
        before = deepcopy(messages)
        if with_line(messages, LINE, takes_system=takes_system) != result or messages != before:
            faults.append((before, takes_system))
    assert not faults


RAISES = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}{{ messages }}"
DROPS = "{% for message in messages if message.role != 'system' %}{{ message.content }}{% endfor %}"
TAKES = "{% for message in messages %}{{ message.content }}{% endfor %}"


def test_a_template_is_asked_whether_it_takes_a_system_message(smollm2_path: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2_path)
    for template, takes in ((None, True), (RAISES, False), (DROPS, False), (TAKES, True)):
        assert takes_system_messages(tokenizer, template) is takes


def test_the_template_of_the_settings_is_a_text_or_a_file(tmp_path: Any) -> None:
    path = tmp_path / "template.jinja"
    path.write_text(TAKES)
    for given in (TAKES, str(path)):
        settings = Settings.load({"secret_token": "k", "engine_kwargs": {"chat_template": given}}, {})
        assert configuration.chat_template(settings) == TAKES
    assert configuration.chat_template(Settings.load({"secret_token": "k"}, {})) is None


TEMPLATE = """{{ bos_token }}{%- if tools %}{{ raise_exception('no tools') }}{%- endif %}
{%- set ns = namespace(thinks=true) %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% generation %}{{ message.content }}{% endgeneration %}<|im_end|>{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n
{%- if enable_thinking is defined and enable_thinking is false %}<think></think>{%- endif %}{{ style }}{%- endif %}"""


def test_the_switches_are_what_a_template_reads_besides_what_every_template_gets(smollm2_path: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2_path)
    assert template_switches(tokenizer, TEMPLATE) == {"enable_thinking", "style"}
    # It has none, or cannot be parsed.
    assert template_switches(tokenizer, None) == template_switches(tokenizer, "{% if %}") == frozenset()


SYSTEM, ASSISTANT, TOOL = ({"role": role, "content": role} for role in ("system", "assistant", "tool"))
TALK = [SYSTEM, USER, ASSISTANT, {**USER, "content": "again"}, TOOL, ASSISTANT, {**USER, "content": "last"}]


async def test_as_few_of_the_oldest_turns_go_as_make_it_fit() -> None:
    for talk, most, left in (
        (TALK, 6, [0, 3, 4, 5, 6]),
        (TALK, 5, [0, 3, 4, 5, 6]),
        (TALK, 4, [0, 6]),
        (TALK, 2, [0, 6]),
        (TALK, 1, None),
        # System messages stay wherever they are, and so does what follows the last question.
        ([ASSISTANT, USER, SYSTEM, ASSISTANT, USER, TOOL], 9, [1, 2, 3, 4, 5]),
        ([SYSTEM, USER, TOOL, ASSISTANT], 9, None),
        ([ASSISTANT], 9, None),
        ([SYSTEM, *[USER] * 999], 100, [0, *range(901, 1000)]),
    ):
        asked: list[int] = []

        async def fits(messages: Any, most: int = most, asked: list[int] = asked) -> bool:
            asked.append(len(messages))
            return len(messages) <= most

        expected = None if left is None else [talk[number] for number in left]
        assert await drop_oldest_turns(talk, fits) == expected
        assert len(asked) <= 11
