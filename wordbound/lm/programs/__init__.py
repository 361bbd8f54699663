"""Programs: a prompt, a constraint, and code that looks at each step. ``AsyncLM.run`` runs one."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from wordbound.lm.gathering import num_equal, run_sync
from wordbound.lm.programs.constraint import (
    Constraint,
    GrammarConstraint,
    ListConstraint,
    Unconstrained,
    llguidance_grammar,
    llguidance_tokenizer,
)
from wordbound.lm.programs.events import (
    Callback,
    Capture,
    Event,
    Replace,
    RunError,
    RunToken,
    Step,
    StepContext,
    StepFeedback,
    StopRun,
    Usage,
)
from wordbound.lm.programs.run import Run
from wordbound.lm.sampling import Sampling

if TYPE_CHECKING:
    from wordbound.lm.word_list import WordList

__all__ = [
    "Callback",
    "Capture",
    "Event",
    "LogitsOutput",
    "Replace",
    "Run",
    "RunError",
    "RunToken",
    "Sampling",
    "Step",
    "StepContext",
    "StepFeedback",
    "StopRun",
    "Usage",
    "WithRuns",
]

Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""A text, token ids, or the messages of a chat."""


class LogitsOutput(TypedDict):
    """What ``get_logits`` returns: float32 (rows, V), how many tokens were given, and how many the last call had."""

    logits: npt.NDArray[np.float32]
    n_tokens: int
    n_cached: int


class WithRuns:
    """A model whose texts are written step by step, within a constraint."""

    tokenizer: Any
    vocab_size: int
    _last_ids: Sequence[int] = ()
    """Of the last call of ``get_logits``."""

    def run(
        self,
        prompt: Prompt,
        *,
        vocab: "WordList | None" = None,
        lark: str | None = None,
        regex: str | None = None,
        json_schema: str | Mapping[str, Any] | None = None,
        max_tokens: int = 256,
        sampling: Sampling | None = None,
        top_k: int = 5,
        backtrack: bool = True,
        fast_forward: bool = True,
        score_forced: bool = True,
        step: Step | None = None,
        eos_token_ids: Iterable[int] | None = None,
        lora_name: str | None = None,
    ) -> Run:
        """Start a run; ``async for event in model.run(…)`` writes it.

        Args:
            prompt: A text, token ids, or messages for the tokenizer's chat template.
            vocab: A ``WordList``: only its texts are written, and each ends whole within ``max_tokens``.
            lark: A grammar in llguidance's Lark; its named groups are captured.
            regex: A regular expression of Rust's kind that the whole text matches.
            json_schema: A JSON schema, as an object or as text.
            max_tokens: The most tokens of the text, forced and injected ones included.
            sampling: How tokens are drawn; by default by the model's own probabilities. A temperature that a Lark
                grammar sets goes before its own.
            top_k: How many of the likeliest tokens are reported with each; 0 for none.
            backtrack: Whether a grammar may remove tokens that it spells otherwise.
            fast_forward: Whether tokens that the constraint leaves no choice of are added at once, not sampled.
            score_forced: Whether these have probabilities too, each by a row that joins the batch of the next token.
            step: When to call back, and what.
            eos_token_ids: The tokens that end a text without a list; the tokenizer's own by default.
            lora_name: The adapter.

        Raises:
            ValueError: A bad argument, or more than one constraint.
            RunError: The grammar cannot be used; and while it is iterated, the text cannot go on.
        """
        given = {"vocab": vocab, "lark": lark, "regex": regex, "json_schema": json_schema}
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise ValueError(f"a run has one constraint: give one of {' and '.join(named)}")
        ends = tuple(() if eos_token_ids is None else eos_token_ids)
        if eos_token_ids is None and vocab is None and self._need_tokenizer().eos_token_id is not None:
            ends = (self.tokenizer.eos_token_id,)
        constraint: Constraint
        if vocab is not None:
            constraint = ListConstraint(vocab)
        elif not named:
            constraint = Unconstrained(ends)
        else:
            constraint = GrammarConstraint(
                llguidance_tokenizer(self._need_tokenizer(), self.vocab_size, ends),
                llguidance_grammar(lark, regex, json_schema),
                backtrack=backtrack,
                fast_forward=fast_forward,
            )
        return Run(
            self,  # type: ignore[arg-type]  # an AsyncLM
            self._prompt_ids(prompt),
            constraint,
            max_tokens=max_tokens,
            sampling=sampling or Sampling(),
            top_k=top_k,
            fast_forward=fast_forward,
            score_forced=score_forced,
            step=step,
            lora_name=lora_name,
        )

    def run_sync(self, prompt: Prompt, **options: Any) -> Run:
        """Write a whole run, for code that does not await; its events are in ``events``. Arguments as of ``run``."""
        run = self.run(prompt, **options)

        async def write() -> None:
            async for _ in run:
                pass

        run_sync(write())
        return run

    async def chat_completion_streaming(
        self,
        messages: Sequence[Mapping[str, Any]],
        grammar: str,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> AsyncGenerator[tuple[bytes, dict[str, str]], None]:
        """Yield an answer to a chat in a Lark grammar, as it is written: new bytes, and the captures so far.

        ``tools`` go to the chat template; ``options`` are those of ``run``. Nothing that was yielded is taken back.
        """
        tokenizer = self._need_tokenizer()
        template_options: dict[str, Any] = {"add_generation_prompt": True, "return_dict": False}
        prompt = tokenizer.apply_chat_template(messages, tools=tools, **template_options)
        run = self.run(list(prompt), lark=grammar, backtrack=False, **options)
        sent = 0
        async for _ in run:
            data = run.text_bytes
            captures = {name: _text_of(value) for name, value in run.captures.items()}
            yield data[sent:], captures
            sent = len(data)

    async def chat_completion(
        self,
        messages: Sequence[Mapping[str, Any]],
        grammar: str,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> tuple[str, dict[str, str]]:
        """Return a whole answer to a chat in a Lark grammar, and its captures; see ``chat_completion_streaming``."""
        parts = [part async for part in self.chat_completion_streaming(messages, grammar, tools, **options)]
        return b"".join(data for data, _ in parts).decode(errors="replace"), parts[-1][1] if parts else {}

    def chat_completion_sync(self, *args: Any, **options: Any) -> tuple[str, dict[str, str]]:
        """As ``chat_completion``, for code that does not await."""
        return run_sync(self.chat_completion(*args, **options))

    def get_logits(
        self, token_ids: Sequence[int], include_all_uncached_tokens: bool = False, lora_name: str | None = None
    ) -> LogitsOutput:
        """Return rows as guidance's engines do: log p, which are logits too, after the last token.

        With ``include_all_uncached_tokens`` those after each token that the last call did not have, and the one before.
        """
        last_ids, self._last_ids = self._last_ids, list(token_ids)
        return logits_after(self, self._last_ids, last_ids, include_all_uncached_tokens, lora_name)

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return list(self._need_tokenizer()(prompt)["input_ids"])
        if prompt and isinstance(prompt[0], Mapping):
            tokenizer = self._need_tokenizer()
            return list(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False))
        ids: Any = prompt
        return [int(token) for token in ids]

    def _need_tokenizer(self) -> Any:
        if self.tokenizer is None:
            raise ValueError("this model has no tokenizer, which a run needs: load one and give it as tokenizer=")
        return self.tokenizer


def logits_after(
    model: Any, ids: list[int], last_ids: Sequence[int], include_all_uncached_tokens: bool, lora_name: str | None
) -> LogitsOutput:
    """Return what ``get_logits`` does after a call with ``last_ids``."""
    num_cached = num_equal(ids, last_ids)
    if num_cached == len(ids) < len(last_ids):
        # As in guidance's engines: what is continued otherwise takes a forward pass of its last token.
        num_cached -= 1
    # The row before the first uncached token has its probability.
    first = max(1, num_cached) if include_all_uncached_tokens else len(ids)
    rows = model.batch_next_token_logprobs_sync([ids[:end] for end in range(first, len(ids) + 1)], lora_name)
    return {"logits": np.asarray(rows.cpu()), "n_tokens": len(ids), "n_cached": num_cached}


def _text_of(capture: Capture | Sequence[Capture]) -> str:
    return capture.text if isinstance(capture, Capture) else capture[-1].text
