"""The answers of the service, as its OpenAPI document describes them. Handlers write them without these models."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, with_config
from typing_extensions import is_typeddict

from deployments.protocol.documents import Exercise
from deployments.protocol.messages import ToolCall
from vocab import answers
from vocab.answers import FewerItems, Usage

for _model in vars(answers).values():
    if is_typeddict(_model):
        with_config(use_attribute_docstrings=True)(_model)


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


class Overflow(Described):
    dropped_messages: int
    cut_characters: int | None = None
    """Of the longest message that is left, at its end."""


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
    """The answer; where the service is compatible with llm-serving and there is no vocabulary, after the prompt."""
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


class File(BaseModel):
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Literal["batch", "batch_output"]
    status: str


class DeletedFile(BaseModel):
    id: str
    object: Literal["file"]
    deleted: bool


class Counts(BaseModel):
    total: int
    completed: int
    failed: int


class Batch(BaseModel):
    id: str
    object: Literal["batch"]
    endpoint: str
    status: Literal[
        "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"
    ]
    errors: dict[str, Any] | None
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    completion_window: str
    created_at: int
    expires_at: int | None
    request_counts: Counts
    metadata: dict[str, str] | None


class JobError(BaseModel):
    message: str | None
    code: str | None


class Job(Described):
    id: str
    job_id: str
    message: str
    object: Literal["batch.job"]
    status: Literal["pending", "processing", "completed", "failed"]
    submitted_at: int
    started_at: int | None
    finished_at: int | None
    error: JobError | str | None
    """A sentence where the service is compatible with the wordlist server."""
    progress: Counts


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FilePage(Page[File]):
    pass


class BatchPage(Page[Batch]):
    pass
