"""The answers of the service, as its OpenAPI document describes them. Handlers write them without these models."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, with_config
from typing_extensions import is_typeddict

from deployments.protocol.generation.messages import ToolCall
from deployments.protocol.openapi.batch_answers import Batch, BatchPage, DeletedFile, File, FilePage, Job
from deployments.protocol.worksheets import Exercise
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


ANSWERS: Final[dict[str, type[Any]]] = {
    "GET /health": Health,
    "GET /ready": Health,
    "GET /v1/models": ModelList,
    "GET /v1/models/{name}": Model,
    "POST /v1/chat/completions": ChatCompletion,
    "POST /generate": Generated,
    "POST /v1/completions": Completion,
    "POST /tokenize": Tokens,
    "POST /detokenize": DetokenizedText,
    "POST /v1/logprobs": answers.LogprobsList,
    "POST /v1/token_logprobs": answers.TokenLogprobs,
    "GET /v1/tokens": answers.TokenTable,
    "GET /v1/vocabularies": answers.VocabularyList,
    "GET /v1/vocabularies/{list_id}/words": answers.VocabularyWords,
    "POST /v1/vocabularies/check": answers.CheckReport,
    "POST /v1/vocabularies/next": answers.NextWords,
    "POST /v1/vocabularies/swap": answers.OtherWords,
    "POST /v1/vocabularies/rewrite": answers.RewrittenText,
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
