"""The demo's model as one that thinks first: two of its unused tokens are ``<think>`` and ``</think>``, and its chat
template opens the first. It was not trained to close it, so an engine does, or a bias."""

import json
from pathlib import Path
from typing import Final

THINKING: Final = "holo2"
"""A reasoning parser that knows these tokens, and the switch of the template."""

END: Final = 16
"""The token that ends thinking."""

_MARKS: Final = {"<jupyter_script>": "<think>", "<empty_output>": "</think>"}

_TEMPLATE: Final = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% if enable_thinking is defined and not enable_thinking %}
</think>

{% endif %}{% endif %}"""


def write_thinking_model(source: Path, folder: Path) -> Path:
    """Writes the tokenizer and template to a new folder, with links to the rest; returns it."""
    folder.mkdir()
    for path in source.iterdir():
        if path.name not in ("tokenizer.json", "chat_template.jinja"):
            (folder / path.name).symlink_to(path)
    (folder / "chat_template.jinja").write_text(_TEMPLATE)
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    for added in tokenizer["added_tokens"]:
        if added["content"] in _MARKS:
            # As of models that think: not special, so that the parser finds it in the text.
            added |= {"content": _MARKS[added["content"]], "special": False}
    vocab = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {_MARKS.get(text, text): number for text, number in vocab.items()}
    assert tokenizer["model"]["vocab"]["</think>"] == END
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    return folder
