"""The bodies of chats and completions: OpenAI's fields, those that vLLM adds, and this service's own."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag

from deployments.protocol.decoding import DecodingFields
from deployments.protocol.messages import Messages
from deployments.protocol.structure import ResponseFormat, StructuredOutputs, ToolChoice, Tools
from deployments.protocol.validation import (
    INT32_MAX,
    INT64_MAX,
    AtMost,
    Body,
    ModelName,
    at_most,
    by_kind,
    expected_error,
)
from deployments.protocol.vocabulary import VocabularyFields
from deployments.settings.limits import MAX_BAD_WORDS, MAX_LOGIT_BIAS, MAX_STOP_CHARS, MAX_TOKEN_IDS

_NOT_IN_CHATS: Final = (
    "add_special_tokens audio chat_template documents echo ec_transfer_params function_call functions "
    "kv_transfer_params media_io_kwargs mm_processor_kwargs prediction prompt_logprobs return_prompt_text "
    "routed_experts_prompt_start truncate_prompt_tokens truncation_side use_beam_search verbosity vllm_xargs "
    "web_search_options"
)
_NOT_IN_COMPLETIONS: Final = (
    "ec_transfer_params kv_transfer_params prompt_embeds prompt_logprobs routed_experts_prompt_start suffix "
    "thinking_token_budget truncate_prompt_tokens truncation_side use_beam_search vllm_xargs"
)

Text = Annotated[str, Field(max_length=1024)]
Temperature = Annotated[float, Field(ge=0, le=2)]
TopK = Annotated[int, Field(ge=-1, le=INT32_MAX)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
RepetitionPenalty = Annotated[float, Field(ge=0.01, le=10)]
Probability = Annotated[float, Field(ge=1e-6, le=1)]
"""The floor keeps it from vanishing in float32, in which the engine subtracts it from 1."""
TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]
TokenIds = Annotated[list[TokenId], at_most(MAX_TOKEN_IDS)]
WrittenTokenId = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,9})$")]
"""Canonical, so that no two names mean one token."""
LogitBias = Annotated[dict[WrittenTokenId, Annotated[float, Field(ge=-100, le=100)]], at_most(MAX_LOGIT_BIAS)]
NumTokens = Annotated[int, Field(ge=1), AtMost("max_new_tokens")]
Seed = Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)]
Count = Annotated[int, Field(ge=0, le=1000)]
StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]
Stop = Annotated[
    Annotated[StopString, Tag("a scalar")] | Annotated[list[StopString], AtMost("max_stop"), Tag("a list")],
    by_kind,
    AfterValidator(lambda value: [value] if isinstance(value, str) else value),
]


_MAX_SWITCHES: Final = 16
"""Templates read one or two."""
_SWITCHES: Final = (
    f"an object of at most {_MAX_SWITCHES} members, each true, false, a number or a string of at most 1024 characters"
)


def _check_switches(switches: dict[str, Any]) -> dict[str, Any]:
    """Drop null switches; refuse any that are too many, too long, or lists and objects."""
    given = {name: value for name, value in switches.items() if value is not None}
    for name, value in given.items():
        is_short = isinstance(value, bool | int | float | str) and max(len(name), len(str(value))) <= 1024
        if not is_short or len(given) > _MAX_SWITCHES:
            raise expected_error(_SWITCHES)
    return given


class StreamOptions(Body):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None
    token_details: bool | None = None
    """Each part lists its tokens, with their probabilities."""
    top_k: Annotated[int, Field(ge=0), AtMost("max_top_logprobs")] | None = None
    """Of ``token_details``: how many of the model's likeliest tokens are listed with each; 5."""


class RepetitionDetection(Body):
    max_pattern_size: Count | None = None
    min_pattern_size: Count | None = None
    min_count: Count | None = None


class SamplingFields(Body):
    """The fields that reach the engine, of chats and of completions."""

    model: ModelName | None = None
    """The model that is served or one of its adapters, as ``GET /v1/models`` names them; by default the model."""
    temperature: Temperature | None = None
    """By default 1 for free text; with a vocabulary 0.3, or 0.5 where several texts are drawn to choose from."""
    top_p: Probability | None = None
    """Draw among the likeliest tokens that have this probability together."""
    top_k: TopK | None = None
    """-1 and 0 for all tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """By default 0 for free text, 0.1 with a vocabulary."""
    n: Annotated[int, Field(ge=1), AtMost("max_n")] | None = None
    """How many answers."""
    seed: Seed | None = None
    """The same number draws the same text again, as far as rounding lets it."""
    stop: Stop | None = None
    """The answer ends before this string, or the first of these."""
    stream: bool | None = None
    """Answer by server-sent events."""
    stream_options: StreamOptions | None = None
    """Of a stream: whether its last chunk has the usage, and each part its tokens."""
    stream_interval: NumTokens | None = None
    """Tokens in one event."""
    frequency_penalty: Penalty | None = None
    """Taken from a token's logit for each time that it came."""
    presence_penalty: Penalty | None = None
    """Taken once from the logit of a token that came."""
    repetition_penalty: RepetitionPenalty | None = None
    """Divides logits, in float32: far below 0.01 they would become infinite, and the probabilities no numbers."""
    logit_bias: LogitBias | None = None
    """Token ids, written in decimal, and what is added to their logits."""
    min_tokens: Annotated[int, Field(ge=0), AtMost("max_new_tokens")] | None = None
    """The answer does not end before so many tokens."""
    response_format: ResponseFormat | None = None
    """JSON, or text; with a vocabulary every string that the schema does not fix is a text of the list."""
    structured_outputs: StructuredOutputs | None = None
    """What the answer has to match, in vLLM's terms; not with a vocabulary."""
    allowed_token_ids: Annotated[TokenIds, Field(min_length=1)] | None = None
    """Only these tokens may come; not with a vocabulary."""
    bad_words: Annotated[list[StopString], at_most(MAX_BAD_WORDS)] | None = None
    """Words that do not come; with a vocabulary single words, in every form."""
    ignore_eos: bool | None = None
    """Go on to ``max_tokens``; not with a vocabulary."""
    include_stop_str_in_output: bool | None = None
    """Whether the stop string stays at the end of the answer."""
    logprob_token_ids: TokenIds | None = None
    """Tokens whose log-probabilities are reported besides; not with a vocabulary."""
    repetition_detection: RepetitionDetection | None = None
    """End an answer that repeats itself; not with a vocabulary."""
    return_token_ids: bool | None = None
    """Tell the ids of the prompt's and the answer's tokens."""
    return_tokens_as_token_ids: bool | None = None
    """Name tokens among log-probabilities by their ids."""
    skip_special_tokens: bool | None = None
    """Whether special tokens are left out of the text."""
    spaces_between_special_tokens: bool | None = None
    """Whether special tokens in the text have blanks between them."""
    stop_token_ids: TokenIds | None = None
    """The answer ends before one of these tokens; not with a vocabulary."""


class EngineFields(SamplingFields):
    """The fields of a chat that reach the engine."""

    messages: Messages
    """The conversation; at least one message has a text."""
    logprobs: bool | None = None
    """Tell the log-probability of each token of the answer."""
    top_logprobs: Annotated[int, Field(ge=0), AtMost("max_top_logprobs")] | None = None
    """Needs ``logprobs``."""
    tools: Tools | None = None
    """Functions that the model may call; with a vocabulary their arguments are in words of the list."""
    tool_choice: ToolChoice | None = None
    """Whether it may, must or must not, or which one it must call; with a vocabulary one of the last three."""
    parallel_tool_calls: bool | None = None
    """Whether it may call several at once."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """How long a model that thinks first should think."""
    include_reasoning: bool | None = None
    """Whether thoughts are part of the answer."""
    thinking_token_budget: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """How many tokens thoughts may have."""
    add_generation_prompt: bool | None = None
    """Whether the chat template begins a message of the assistant."""
    continue_final_message: bool | None = None
    """Go on after the last message, which is the assistant's."""
    chat_template_kwargs: (
        Annotated[dict[str, Any], Field(json_schema_extra={"x-expected": _SWITCHES}), AfterValidator(_check_switches)]
        | None
    ) = None
    """Switches of the model's own chat template, such as ``enable_thinking``; no others."""


class BookkeepingFields(Body):
    """Fields that change no answer and go no further: OpenAI's bookkeeping, and ids that only the server may give."""

    cache_salt: Text | None = None
    priority: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    request_id: Text | None = None
    return_token_offsets: bool | None = None
    session_id: Text | None = None
    user: Text | None = None


class ChatBookkeepingFields(BookkeepingFields):
    metadata: dict[str, Any] | None = None
    modalities: Annotated[list[Literal["text"]], Field(max_length=1)] | None = None
    prompt_cache_key: Text | None = None
    prompt_cache_retention: Text | None = None
    return_assistant_tokens_mask: bool | None = None
    safety_identifier: Text | None = None
    service_tier: Text | None = None
    store: bool | None = None


class GenerationRequest(DecodingFields, VocabularyFields, SamplingFields):
    """What chats and completions have in common."""

    unsupported: ClassVar[frozenset[str]]
    """Fields of OpenAI or vLLM that this service does not take, whatever their value."""


class ChatCompletionRequest(GenerationRequest, ChatBookkeepingFields, EngineFields):
    """A chat request. A field that is null is the same as one that is missing; an unknown field is an error."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "model": "the name that GET /v1/models lists",
                "messages": [{"role": "user", "content": "Tell me a story about a dog."}],
                "max_tokens": 100,
                "vocab": {"lang": "en", "n_words": 1000, "end": "sentence"},
            }
        }
    )

    unsupported = frozenset(_NOT_IN_CHATS.split())

    max_tokens: NumTokens | None = None
    """How long the answer may be; by default as long as the service allows."""
    max_completion_tokens: NumTokens | None = None
    """The newer name of ``max_tokens``."""


def _kind_of_prompt(value: Any) -> str:
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, str):
        return "texts"
    if isinstance(first, list):
        return "lists of tokens"
    return "tokens" if isinstance(value, list) else "a text"


PromptText = Annotated[str, Field(min_length=1)]
PromptTokens = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]
Prompt = Annotated[
    Annotated[PromptText, Tag("a text")]
    | Annotated[PromptTokens, Tag("tokens")]
    | Annotated[list[PromptText], Field(fail_fast=True), Tag("texts")]
    | Annotated[list[PromptTokens], Field(fail_fast=True), Tag("lists of tokens")],
    Discriminator(_kind_of_prompt),
    Field(
        json_schema_extra={
            "x-expected": "a text, a list of token ids, or a list of several texts or of several such lists, none of "
            "them empty"
        }
    ),
]


class CompletionFields(SamplingFields):
    """The fields of a completion that reach the engine."""

    prompt: Prompt
    """One text, or its tokens; or several prompts, which are answered together."""
    echo: bool | None = None
    """The answer begins with the prompt."""
    logprobs: Annotated[int, Field(ge=0), AtMost("max_top_logprobs")] | None = None
    """How many of the likeliest tokens the answer names at each place, besides its own."""
    add_special_tokens: bool | None = None
    """Whether a text gets the tokens that the tokenizer puts before any text, as by default."""


class CompletionRequest(GenerationRequest, BookkeepingFields, CompletionFields):
    """A completion. A field that is null is the same as one that is missing; an unknown field is an error."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "model": "the name that GET /v1/models lists",
                "prompt": "Once upon a time, there was a dog. ",
                "max_tokens": 60,
                "vocab": {"lang": "en", "n_words": 1000},
            }
        }
    )

    unsupported = frozenset(_NOT_IN_COMPLETIONS.split())

    max_tokens: NumTokens | None = None
    """How long the completion may be; by default 16."""
