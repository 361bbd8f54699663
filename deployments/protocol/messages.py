"""Checks the messages of a chat request.

Lets text through and nothing else: a part with an image, a sound or a file could make the engine fetch an address.
Each message is rebuilt from its known members, so that nothing unchecked reaches a chat template. What the text says,
special tokens and role markers too, is not looked at here; the replica sees to it that it stays text.
"""

from typing import Any, Final

from deployments.limits import Limits
from deployments.protocol.fields import Check, FieldError, at, json_object, list_of, one_of, string
from deployments.protocol.strict_json import JsonError, loads

_ROLES: Final = ("system", "developer", "user", "assistant", "tool")

_TEXT_MEMBERS: Final = {
    "user": ("content", "name"),
    "system": ("content", "name"),
    "developer": ("content", "name"),
    "tool": ("content", "name", "tool_call_id"),
    "assistant": ("content", "name", "refusal", "reasoning", "reasoning_content", "tool_calls"),
}

_ANSWER_MEMBERS: Final = ("annotations", "audio", "function_call", "tool_calls")
"""An answer has these, mostly as null or empty, and clients send answers back as they came."""

_MAX_NAME_CHARS: Final = 256


def messages(limits: Limits) -> Check:
    """A check (see ``fields``) of the whole list."""

    def check(value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not 1 <= len(value) <= limits.max_messages:
            raise FieldError(f"a list of at least 1 and at most {limits.max_messages} messages")
        checked = [at(f"[{index}]", lambda item: _message(item, limits), item) for index, item in enumerate(value)]
        if not any(map(_says_something, checked)):
            raise FieldError("messages of which at least one has a text that is not blank")
        return checked

    return check


def _message(value: Any, limits: Limits) -> dict[str, Any]:
    message = {name: member for name, member in json_object(value).items() if member is not None}
    role = at(".role", one_of(*_ROLES), message.pop("role", None))
    allowed = _TEXT_MEMBERS[role]
    for name in _ANSWER_MEMBERS:
        if role == "assistant" and not message.get(name):
            message.pop(name, None)
    if not message.keys() <= set(allowed):
        raise FieldError(f"an object with no members but role, {', '.join(allowed)}")
    checks = _member_checks(limits)
    checked = {name: at(f".{name}", checks[name], message[name]) for name in message}
    if "content" not in checked and "tool_calls" not in checked:
        raise FieldError("a text or a list of text parts", ".content")
    return {"role": role, "content": None, **checked}


def _member_checks(limits: Limits) -> dict[str, Check]:
    text, name = string(0, limits.max_body_bytes), string(1, _MAX_NAME_CHARS)
    return {
        "content": lambda value: _content(value, limits),
        "name": name,
        "reasoning": text,
        "reasoning_content": text,
        "refusal": text,
        "tool_call_id": name,
        "tool_calls": list_of(lambda call: _tool_call(call, limits), limits.max_tools, min_items=1),
    }


def _content(value: Any, limits: Limits) -> str | list[dict[str, str]]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise FieldError("a text or a list of text parts")
    parts: list[dict[str, str]] = list_of(_text_part, limits.max_messages)(value)
    return parts


def _text_part(value: Any) -> dict[str, str]:
    part = json_object(value)
    if part.get("type") != "text" or part.keys() != {"type", "text"} or not isinstance(part["text"], str):
        raise FieldError('{"type": "text", "text": …}: this service reads text only')
    return {"type": "text", "text": part["text"]}


def _tool_call(value: Any, limits: Limits) -> dict[str, Any]:
    call = json_object(value)
    function = at(".function", json_object, call.get("function"))
    at(".type", one_of("function"), call.get("type", "function"))
    return {
        "id": at(".id", string(1, _MAX_NAME_CHARS), call.get("id")),
        "type": "function",
        "function": {
            "name": at(".function.name", string(1, _MAX_NAME_CHARS), function.get("name")),
            "arguments": at(".function.arguments", lambda text: _arguments(text, limits), function.get("arguments")),
        },
    }


def _arguments(value: Any, limits: Limits) -> str:
    """JSON in a string: the engine parses it with no limit of depth."""
    text: str = string(0, limits.max_body_bytes)(value)
    try:
        if not isinstance(loads(text.encode() or b"{}", limits.max_json_depth), dict):
            raise FieldError("a JSON object, written in a string")
    except JsonError as error:
        raise FieldError(f"a JSON object, written in a string ({error})") from None
    return text


def _says_something(message: dict[str, Any]) -> bool:
    content = message["content"]
    if isinstance(content, list):
        return any(part["text"].strip() for part in content)
    return bool(content and content.strip())
