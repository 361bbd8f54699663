"""How often the list led a text where the free model did not want to go: tokens at which the mask left little."""

import math
from typing import Final

from benchmarks.prose.free_model import FreeModel
from benchmarks.prose.generated import AllowedTokens
from benchmarks.prose.records import Record, Records
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.frame import Frame
from vocab.matching.states import ListStates

LITTLE: Final = 0.1
"""Of the model's probability: where a mask leaves less, the list leads the text where the model did not want to go."""

UNBOUNDED: Final = 1 << 20
"""A budget, in tokens, that no text reaches."""


def count_low_steps(
    model: FreeModel, name: str, lang: str, listed: tuple[CompiledList, Frame], records: Records
) -> int:
    """Adds, for each text of a list that has none yet, at how many tokens the mask left little; how many texts."""
    known = {steps_key(record) for record in records.of("steps")}
    states: dict[int, ListStates] = {}
    num_counted = 0
    for answer in records.of("answer"):
        n_words, key = answer["n_words"], steps_key(answer)
        if n_words is None or (answer["model"], answer["lang"]) != (name, lang) or key in known:
            continue
        known.add(key)
        of_size = states.setdefault(n_words, ListStates(*listed, n_words))
        tokens = model.tokenizer(answer["text"], add_special_tokens=False)["input_ids"]
        allowed = AllowedTokens(of_size, model.end_tokens, 0, UNBOUNDED, model.num_tokens)
        # Texts of other options may leave what the default allows.
        place = next((k for k in range(1, len(tokens)) if not allowed.after(tuple(tokens[:k]))), len(tokens))
        masses = model.log_masses(model.prompt_tokens(answer["prompt"]), tokens[:place], allowed.after)
        num_low = sum(mass < math.log(LITTLE) for mass in masses)
        fields = ("model", "lang", "n_words", "prompt", "text")
        records.add({"kind": "steps", **{f: answer[f] for f in fields}, "num_steps": len(masses), "num_low": num_low})
        num_counted += 1
    return num_counted


def steps_key(record: Record) -> tuple[str, str, int | None, str, str]:
    """What the masks of a text depend on."""
    return record["model"], record["lang"], record["n_words"], record["prompt"], record["text"]
