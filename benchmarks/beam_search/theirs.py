"""transformers' beam search, held to a list by ``prefix_allowed_tokens_fn`` over our automaton.

The system to compare with: one text alone, or several as one batch padded on the left. It asks nothing of vLLM.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.beam_search.found import Found, Task
from benchmarks.prose.generated import AllowedTokens
from vocab.matching.states import ListStates


class TransformersBeams:
    """The model, and the list that its texts keep to.

    Args:
        model_path: The model.
        dtype: "float32" or "bfloat16".
        states: What may be written; None for anything.
    """

    def __init__(self, model_path: str, dtype: str, states: ListStates | None) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model_path)
        self._model = AutoModelForCausalLM.from_pretrained(model_path, dtype=getattr(torch, dtype)).eval()
        self._states = states
        ends = self._model.generation_config.eos_token_id
        self._ends = {int(self.tokenizer.eos_token_id), *(ends if isinstance(ends, list) else [int(ends)])}

    def prompt_tokens(self, prompt: str) -> tuple[int, ...]:
        """The prompt as one message of a chat."""
        messages = [{"role": "user", "content": prompt}]
        tokens = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return tuple(tokens)

    def text(self, found: Found) -> str:
        return str(self.tokenizer.decode(found.tokens, skip_special_tokens=True))

    def search(self, tasks: Sequence[Task]) -> list[Found]:
        """The best text of each task, all in one batch; they have the same rules and budget."""
        rules, budget = tasks[0].rules, tasks[0].budget
        longest = max(len(task.prompt_tokens) for task in tasks)
        padding = [longest - len(task.prompt_tokens) for task in tasks]
        fill = int(self.tokenizer.eos_token_id)
        tokens = [[fill] * num + list(task.prompt_tokens) for num, task in zip(padding, tasks, strict=True)]
        allowed = self._allowed(longest, budget)
        with torch.inference_mode():
            found = self._model.generate(
                torch.tensor(tokens),
                attention_mask=torch.tensor([[0] * num + [1] * (longest - num) for num in padding]),
                num_beams=rules.num_beams,
                do_sample=False,
                max_new_tokens=budget,
                length_penalty=rules.length_penalty,
                early_stopping=rules.early_stopping,
                prefix_allowed_tokens_fn=allowed,
                eos_token_id=sorted(self._ends),
                pad_token_id=fill,
                output_scores=True,
                return_dict_in_generate=True,
            )
        rows = zip(found.sequences[:, longest:].tolist(), found.sequences_scores.tolist(), strict=True)
        trail = frozenset(allowed.trail) if allowed and len(tasks) == 1 else frozenset()
        return [self._found(row, score, rules.length_penalty, trail) for row, score in rows]

    def log_p(self, task: Task, tokens: Sequence[int]) -> float:
        """The sum of log p of these tokens after the prompt."""
        with torch.inference_mode():
            logits = self._model(torch.tensor([[*task.prompt_tokens, *tokens]])).logits[0, -1 - len(tokens) : -1]
        return float(logits.double().log_softmax(-1).gather(1, torch.tensor(tokens)[:, None]).sum())

    def _allowed(self, num_prompt_tokens: int, budget: int) -> "_NotingTokens | None":
        if self._states is None:
            return None
        return _NotingTokens(self._states, sorted(self._ends), num_prompt_tokens, budget, len(self.tokenizer))

    def _found(self, row: list[int], score: float, length_penalty: float, trail: frozenset[tuple[int, ...]]) -> Found:
        end = next((place + 1 for place, token in enumerate(row) if token in self._ends), len(row))
        return Found(tuple(row[:end]), score, score * end**length_penalty, trail)


class _NotingTokens(AllowedTokens):
    """Notes the beams that go on."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.trail: set[tuple[int, ...]] = set()

    def after(self, text: tuple[int, ...]) -> list[int]:
        self.trail.add(text)
        return super().after(text)
