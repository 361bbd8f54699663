"""The text of generated tokens, as vLLM gives it to clients: its own detokenizer, run over tokens that a search found.

It knows the tokenizer and the end of a prompt, for a token's text may depend on what stands before it; it knows
nothing of searches.
"""

from collections.abc import Sequence
from typing import Any, Final

from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.detokenizer import IncrementalDetokenizer

CUT_CHARACTER: Final = "\N{REPLACEMENT CHARACTER}"

_NUM_CONTEXT_TOKENS: Final = 16
"""Of the prompt. vLLM's slower detokenizer looks back 5, and a character takes 4 at most; all of a long prompt would
cost 0.1 ms for each text."""

_MAX_CHARACTER_TOKENS: Final = 4


class TokenText:
    """Texts that follow one prompt.

    Args:
        tokenizer: vLLM's own.
        prompt_tokens: The prompt.
        params: The request's, which say whether special tokens are shown; its stop strings are not looked for.
    """

    def __init__(self, tokenizer: Any, prompt_tokens: Sequence[int], params: SamplingParams) -> None:
        self._tokenizer = tokenizer
        shown = SamplingParams(
            skip_special_tokens=params.skip_special_tokens,
            spaces_between_special_tokens=params.spaces_between_special_tokens,
        )
        self._request = EngineCoreRequest(
            request_id="",
            prompt_token_ids=list(prompt_tokens[-_NUM_CONTEXT_TOKENS:]),
            mm_features=None,
            sampling_params=shown,
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )

    def of(self, tokens: Sequence[int]) -> str:
        """The text, without what is left of a character at its end; 1 µs for each token."""
        if not tokens:
            return ""
        detokenizer = IncrementalDetokenizer.from_new_request(self._tokenizer, self._request)
        detokenizer.update(list(tokens), False)
        return str(detokenizer.get_next_output_text(finished=True, delta=False))

    def is_cut(self, tokens: Sequence[int]) -> bool:
        """Whether the text ends inside a character."""
        return bool(self._tokenizer.decode(list(tokens[-_MAX_CHARACTER_TOKENS:])).endswith(CUT_CHARACTER))
