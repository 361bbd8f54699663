from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from deployments.replica.prompts.template_switches import template_switches

TEMPLATE = """{{ bos_token }}{%- if tools %}{{ raise_exception('no tools') }}{%- endif %}
{%- set ns = namespace(thinks=true) %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% generation %}{{ message.content }}{% endgeneration %}<|im_end|>{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n
{%- if enable_thinking is defined and enable_thinking is false %}<think></think>{%- endif %}{{ style }}{%- endif %}"""


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_path)


def test_the_switches_are_what_a_template_reads_besides_what_every_template_gets(tokenizer: Any) -> None:
    assert template_switches(tokenizer, TEMPLATE) == {"enable_thinking", "style"}


def test_a_template_may_have_none(tokenizer: Any) -> None:
    assert template_switches(tokenizer, None) == frozenset()


def test_a_template_that_cannot_be_parsed_has_none(tokenizer: Any) -> None:
    assert template_switches(tokenizer, "{% if %}") == frozenset()
