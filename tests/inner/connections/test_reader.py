"""How long an answer waits for its client, and in which parts it goes."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from deployments.ingress.connections.reader import PART_BYTES, Reader, ReadTooSlowly
from deployments.settings.limits import Limits

START: Message = {"type": "http.response.start", "status": 200, "headers": []}


def body_of(num_bytes: int, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": bytes(num_bytes), "more_body": more}


class Client:
    """Takes each part after so many seconds."""

    def __init__(self, part_s: float) -> None:
        self.part_s = part_s
        self.taken: list[Message] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(self.part_s)
        self.taken.append(message)


def reader_of(client: Client, max_unread_s: float, parts_per_s: float) -> Reader:
    limits = Limits(max_unread_s=max_unread_s, min_read_bytes_per_s=int(parts_per_s * PART_BYTES))
    return Reader(client.send, limits)


@pytest.mark.parametrize("more", [False, True])
async def test_a_large_message_goes_in_parts_and_only_the_last_may_end_the_answer(more: bool) -> None:
    for num_bytes in (0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES, 3 * PART_BYTES + 7):
        client = Client(0)
        reader = reader_of(client, 30, 1)
        await reader.send(START)
        sent: dict[str, Any] = {**body_of(num_bytes, more=more), "body": b"0123456789" * (num_bytes // 10 + 1)}
        sent["body"] = sent["body"][:num_bytes]
        await reader.send(sent)
        start, *parts = client.taken
        assert start == START
        assert b"".join(part["body"] for part in parts) == sent["body"]
        assert max(len(part["body"]) for part in parts) <= PART_BYTES
        assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [more]


@pytest.mark.fault(59)
async def test_a_client_that_takes_nothing_is_given_up_and_nothing_after_that_is_waited_for() -> None:
    reader = reader_of(Client(3600), 0.2, 1)
    await reader.send(START)
    for _ in range(2):
        async with asyncio.timeout(5):
            with pytest.raises(ReadTooSlowly):
                await reader.send(body_of(1))


@pytest.mark.fault(37)
async def test_a_client_that_takes_less_than_the_least_rate_is_given_up_however_regularly() -> None:
    # A part each 0.05 s is no wait of 0.5 s, and a tenth of the rate.
    client = Client(0.05)
    reader = reader_of(client, 0.5, 200)
    with pytest.raises(ReadTooSlowly):
        for _ in range(200):
            await reader.send(body_of(PART_BYTES))
    assert 5 <= len(client.taken) <= 15


async def test_a_client_that_is_faster_is_never_given_up_and_saves_no_time_for_later() -> None:
    client = Client(0.01)
    reader = reader_of(client, 0.3, 10)
    for _ in range(100):
        await reader.send(body_of(PART_BYTES))
    client.part_s = 3600
    async with asyncio.timeout(5):
        with pytest.raises(ReadTooSlowly):
            await reader.send(body_of(PART_BYTES))
