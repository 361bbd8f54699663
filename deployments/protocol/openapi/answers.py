"""The answers of the service, as its OpenAPI document describes them. Handlers write them without these models."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from deployments.protocol.generation.messages import ToolCall
from deployments.protocol.openapi.batch_answers import Batch, BatchPage, DeletedFile, File, FilePage, Job
from deployments.protocol.vocabularies import CheckReport, VocabularyList, VocabularyWords
from deployments.protocol.word_tools import ExerciseKind
from deployments.protocol.worksheets import Exercise


class Described(BaseModel):
    """An answer whose members are described below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    error: ErrorDetail


class Health(BaseModel):
    status: Literal["ok", "unavailable"]


class DocumentText(BaseModel):
    text: str


class Model(Described):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None = None
    """The model's context in tokens; missing until a replica has said it."""
    max_input_tokens: int
    """How long a prompt may be here."""
    max_output_tokens: int
    """How long an answer may be here."""
    parent: str | None = None
    """Of an adapter, the model that it belongs to."""
    root: str | None = None
    """Of an adapter, where it comes from."""


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[Model]


class AnswerMessage(BaseModel):
    role: Literal["assistant"]
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(BaseModel):
    index: int
    message: AnswerMessage
    finish_reason: str | None
    logprobs: dict[str, Any] | None = None


class PromptTokensDetails(Described):
    cached_tokens: int | None = None
    """Tokens of the prompt that the engine had computed before."""


class Timing(Described):
    """How long an answer took, as far as its engine says."""

    queue_time_ms: float | None = None
    """In the engine's queue."""
    time_to_first_token_ms: float | None = None
    """From there to the first token."""
    generation_time_ms: float | None = None
    """From the first token to the last."""
    mean_itl_ms: float | None = None
    """Between two tokens."""
    tokens_per_second: float | None = None
    total_time_ms: float
    """In the replica, from the request's turn to the usage."""


class Usage(Described):
    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None
    timing: Timing | None = None
    """Of chats and completions."""


class Overflow(BaseModel):
    dropped_messages: int


class ChatCompletion(Described):
    """The answer; with ``stream`` server-sent events of ``chat.completion.chunk`` objects, then ``[DONE]``."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None
    vocab: dict[str, Any] | None = None
    """Of an answer with a vocabulary: the list, and how much of the text is made of it."""
    input_overflow: Overflow | None = None
    """Of an answer to a conversation that was too long, where the service shortens such; in a stream, of its first
    chunk."""


class Generated(Described):
    """The answer; with ``stream`` server-sent events of ``{"text": …}``, a part each, the last of them with these
    members too, then ``[DONE]``."""

    generated_text: str
    token_count: int
    finish_reason: str | None
    vocab: dict[str, Any] | None = None
    """As in the answer to a chat."""
    input_overflow: Overflow | None = None


class CompletionChoice(BaseModel):
    index: int
    text: str
    finish_reason: str | None
    logprobs: dict[str, Any] | None = None


class Completion(Described):
    """The answer; with ``stream`` server-sent events of such objects with parts of the text, then ``[DONE]``."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    vocab: dict[str, Any] | None = None
    """Of an answer with a vocabulary: the list, and how much of the text is made of it."""


class Tokens(BaseModel):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizedText(BaseModel):
    prompt: str


class TopLogprobs(Described):
    object: Literal["logprobs"]
    index: int
    token_ids: list[int]
    """The likeliest tokens after the prompt, the likeliest first."""
    logprobs: list[float]


class LogprobsList(BaseModel):
    """With ``top_logprobs``. Without it: all numbers as little-endian bytes, row by row; the headers
    ``x-wordbound-shape`` ("prompts,tokens"), ``x-wordbound-dtype`` and ``x-wordbound-prompt-tokens`` describe them."""

    object: Literal["list"]
    model: str
    data: list[TopLogprobs]
    usage: Usage


class TokenLogprobs(BaseModel):
    object: Literal["token_logprobs"]
    model: str
    logprobs: list[float]
    usage: Usage


class TokenTable(Described):
    object: Literal["tokens"]
    model: str
    vocab_size: int
    tokens: list[str]
    """The bytes of each token in base64; of a special token those of its name. Empty where the model has a number and
    the tokenizer no token."""
    special_ids: list[int]
    eos_token_ids: list[int]


class NextWord(Described):
    word: str
    """As it would be written there."""
    logprob: float
    probability: float
    """The model's own, of all that may come next and not only of the list."""
    rank: int


class NextWords(Described):
    object: Literal["vocabulary.next"]
    model: str
    data: list[NextWord]
    """The likeliest first."""
    remainder: float
    """The probability of everything else: other words, marks, the end of the text."""
    vocab: dict[str, Any]
    """The list, as in the answer to a chat."""
    usage: Usage


class OtherWord(Described):
    word: str
    text: str
    """The sentence with it."""
    logprob: float
    """Of the word and the rest of the sentence, after what stands before them."""
    rank: int


class OtherWords(Described):
    object: Literal["vocabulary.swap"]
    model: str
    word: str
    logprob: float
    """Of the word itself and the rest of the sentence."""
    data: list[OtherWord]
    """The likeliest first."""
    vocab: dict[str, Any]
    """The list, as in the answer to a chat."""
    usage: Usage


class Change(Described):
    start: int
    """Where the words begin in the text of the request, in code points."""
    end: int
    before: str = Field(alias="from")
    to: str


class Coverage(BaseModel):
    before: float | None
    after: float | None


class RewrittenText(Described):
    """The answer; with ``stream`` server-sent events of ``{"text": …}``, a part each, then one of this object, then
    ``[DONE]``."""

    object: Literal["vocabulary.rewrite"]
    model: str
    text: str
    changes: list[Change]
    names: list[str]
    """What was kept besides the words of the list."""
    coverage: Coverage
    """The share of running words that are listed, names that are kept too; null where there are no words."""
    vocab: dict[str, Any]
    """The list with the names, as in the answer to a chat."""
    usage: Usage


class FewerItems(BaseModel):
    kind: ExerciseKind
    num_items: int
    reason: str


class Exercises(Described):
    """The answer; with ``stream`` server-sent events of ``{"exercise": …}``, then one of this object, then
    ``[DONE]``."""

    object: Literal["vocabulary.exercises"]
    model: str
    lang: str | None
    exercises: list[Exercise]
    """Those that have an item, in the order that was asked for."""
    names: list[str]
    """Of the text, which counted as listed."""
    num_sentences: int
    num_unlisted_sentences: int
    """Those that were not used, for they have words that are not listed."""
    left_out: list[FewerItems]
    """The kinds that have fewer items than asked for, and why."""
    vocab: dict[str, Any]
    """The list with the names, as in the answer to a chat."""
    usage: Usage


ANSWERS: Final[dict[str, type[BaseModel]]] = {
    "GET /health": Health,
    "GET /ready": Health,
    "GET /v1/models": ModelList,
    "GET /v1/models/{name}": Model,
    "POST /v1/chat/completions": ChatCompletion,
    "POST /generate": Generated,
    "POST /v1/completions": Completion,
    "POST /tokenize": Tokens,
    "POST /detokenize": DetokenizedText,
    "POST /v1/logprobs": LogprobsList,
    "POST /v1/token_logprobs": TokenLogprobs,
    "GET /v1/tokens": TokenTable,
    "GET /v1/vocabularies": VocabularyList,
    "GET /v1/vocabularies/{list_id}/words": VocabularyWords,
    "POST /v1/vocabularies/check": CheckReport,
    "POST /v1/vocabularies/next": NextWords,
    "POST /v1/vocabularies/swap": OtherWords,
    "POST /v1/vocabularies/rewrite": RewrittenText,
    "POST /v1/vocabularies/exercises": Exercises,
    "POST /v1/documents/text": DocumentText,
    "GET /v1/files": FilePage,
    "POST /v1/files": File,
    "GET /v1/files/{file_id}": File,
    "DELETE /v1/files/{file_id}": DeletedFile,
    "GET /v1/batches": BatchPage,
    "POST /v1/batches": Batch,
    "GET /v1/batches/{batch_id}": Batch,
    "POST /v1/batches/{batch_id}/cancel": Batch,
    "POST /v1/batch/jobs": Job,
    "GET /v1/batch/jobs/{job_id}": Job,
}
"""By method and path."""
