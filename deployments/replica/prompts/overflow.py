"""Shorten a conversation that the service may not read whole: its oldest turns go, and the answer says so.

A turn begins with a message of the user and holds what follows it, calls of tools and their results included, so that
what is left is a conversation that a chat template takes. System messages and the last turn always stay.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from deployments.contract import Answer
from deployments.replica.engine import engine

Messages: TypeAlias = list[dict[str, Any]]

FIELD = "input_overflow"
"""Of an answer to such a conversation: of a whole one, and of the first chunk of a stream."""


async def drop_oldest_turns(messages: Messages, fits: Callable[[Messages], Awaitable[bool]]) -> Messages | None:
    """Drop as few of the oldest turns as make a conversation fit; None where even the last turn does not.

    ``fits`` is asked about eleven times for a thousand turns.
    """
    turns = _turns(messages)
    fewest, most = 1, len(turns) - 1
    if most < 1 or not await fits(_without(messages, turns[:most])):
        return None
    while fewest < most:
        middle = (fewest + most) // 2
        if await fits(_without(messages, turns[:middle])):
            most = middle
        else:
            fewest = middle + 1
    return _without(messages, turns[:most])


def annotate(item: Answer, num_dropped: int) -> Answer:
    """Add to the first item of an answer how many messages were dropped."""
    block = {FIELD: {"dropped_messages": num_dropped}}
    if isinstance(item, dict):
        return {**item, **block}
    chunk = engine.parse_event(item)
    return item if chunk is None else engine.write_event({**chunk, **block})


def _turns(messages: Messages) -> list[list[int]]:
    """Group the numbers of the messages by turn; those of system messages are in none."""
    turns: list[list[int]] = []
    for number, message in enumerate(messages):
        if message["role"] in ("system", "developer"):
            continue
        if message["role"] == "user" or not turns:
            turns.append([])
        turns[-1].append(number)
    return turns


def _without(messages: Messages, turns: list[list[int]]) -> Messages:
    """Return the messages that are in none of these turns."""
    dropped = {number for turn in turns for number in turn}
    return [message for number, message in enumerate(messages) if number not in dropped]
