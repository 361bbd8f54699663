"""The messages of a chat request.

Text only: a part with an image, a sound or a file could make the engine fetch an address. Each message is rebuilt
from its known members, so that nothing unchecked reaches a chat template. Special tokens in a text are hidden by the
replica.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from deployments.protocol.strict_json import JsonError, loads
from deployments.protocol.validation import Body, Loose, at_most, by_kind, expected_error
from deployments.settings.limits import MAX_MESSAGES, MAX_TOOLS

Name = Annotated[str, Field(min_length=1, max_length=256)]

_ANSWER_MEMBERS: Final = ("annotations", "audio", "function_call", "tool_calls")
"""An answer has these, mostly as null or empty, and clients send answers back as they came."""


class TextPart(Body):
    type: Literal["text"]
    text: str

    @model_validator(mode="before")
    @classmethod
    def _check_text(cls, value: Any) -> Any:
        is_text = isinstance(value, dict) and value.keys() == {"type", "text"} and value["type"] == "text"
        if not is_text or not isinstance(value["text"], str):
            raise expected_error('{"type": "text", "text": …}: this service reads text only')
        return value


Content = Annotated[
    Annotated[str, Tag("a scalar")] | Annotated[list[TextPart], at_most(MAX_MESSAGES), Tag("a list")], by_kind
]


def _json_object(text: str) -> str:
    """Check that a string holds a JSON object; the engine would parse it without a limit of depth."""
    try:
        if isinstance(loads(text.encode() or b"{}"), dict):
            return text
        raise expected_error("a JSON object, written in a string")
    except JsonError as error:
        raise expected_error(f"a JSON object, written in a string ({error})") from None


class CalledFunction(Loose):
    name: Name
    arguments: Annotated[str, AfterValidator(_json_object)]
    """A JSON object, written in a string."""


class ToolCall(Loose):
    """A call that an earlier answer made."""

    id: Name
    type: Literal["function"] = "function"
    function: CalledFunction


def _require_content(schema: dict[str, Any]) -> None:
    """Mark ``content`` as required in the JSON schema of a message, as ``Message`` checks."""
    schema["required"] = ["content", *schema["required"]]
    content = schema["properties"]["content"]
    content["anyOf"] = [kind for kind in content["anyOf"] if kind != {"type": "null"}]
    content.pop("default", None)


class Message(Body):
    """What all messages have."""

    content: Content | None = None
    """The text, or a list of ``{"type": "text", "text": …}``."""
    name: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_null(cls, value: Any) -> Any:
        """Drop null members of a message, and the empty extra ones of an earlier answer."""
        if not isinstance(value, dict):
            return value
        is_answer = value.get("role") == "assistant"
        return {
            name: member
            for name, member in value.items()
            if member is not None and (member or not is_answer or name not in _ANSWER_MEMBERS)
        }

    @model_validator(mode="after")
    def _check_content(self) -> "Message":
        if self.content is None and getattr(self, "tool_calls", None) is None:
            raise expected_error("a text or a list of text parts", ".content")
        return self

    @model_serializer(mode="wrap")
    def _with_content(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Chat templates read it also where an assistant only called tools.
        return {"content": None, **handler(self)}

    def texts(self) -> list[str]:
        return [part.text for part in self.content] if isinstance(self.content, list) else [self.content or ""]


class TextMessage(Message):
    model_config = ConfigDict(json_schema_extra=_require_content)

    role: Literal["system", "developer", "user"]


class ToolMessage(Message):
    """What a tool gave back."""

    model_config = ConfigDict(json_schema_extra=_require_content)

    role: Literal["tool"]
    tool_call_id: Name | None = None


class AssistantMessage(Message):
    """An earlier answer, as it came."""

    role: Literal["assistant"]
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1), at_most(MAX_TOOLS)] | None = None


def _role(value: Any) -> str:
    # A model when it is serialized.
    role = value.get("role") if isinstance(value, dict) else getattr(value, "role", None)
    return f"of {role}" if role in ("tool", "assistant") else "of text"


def _check_some_text(messages: list[Message]) -> list[Message]:
    if not any(text.strip() for message in messages for text in message.texts()):
        raise expected_error("messages of which at least one has a text that is not blank")
    return messages


Messages = Annotated[
    list[
        Annotated[
            Annotated[TextMessage, Tag("of text")]
            | Annotated[AssistantMessage, Tag("of assistant")]
            | Annotated[ToolMessage, Tag("of tool")],
            Discriminator(_role),
        ]
    ],
    Field(min_length=1),
    at_most(MAX_MESSAGES),
    AfterValidator(_check_some_text),
]
