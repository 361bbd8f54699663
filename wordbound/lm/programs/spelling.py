"""How tokens spell a run's text: those of a part of it, and those of text that is put into it."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

from wordbound.lm.programs.constraint import Constraint
from wordbound.lm.programs.events import RunError, RunToken

_MAX_HEALED: Final = 16
"""As many tokens before injected text may be spelled anew with it, back to one that begins with a space."""

_MARK: Final = "\x02"
"""Before a text that is spelled as in the middle of another; a token of its own in tokenizers with bytes."""


def tokens_of_last(tokens: Sequence[RunToken], part: bytes) -> slice | None:
    """Return which tokens have a share in the last occurrence of ``part`` in their text; None where there is none."""
    ends = list(accumulate(len(token.bytes) for token in tokens))
    at = b"".join(token.bytes for token in tokens).rfind(part)
    if at < 0 or not part:
        return None
    return slice(bisect_right(ends, at), bisect_left(ends, at + len(part)) + 1)


def spell(tokens: Sequence[RunToken], kept: bytes, data: bytes, tokenizer: Any) -> list[int]:
    """Return the ids of a text, of which ``tokens`` spell the beginning ``kept``, with ``data`` after it.

    The last word of what is kept is spelled anew with what follows: tokens heal across the seam.
    """
    ends = list(accumulate((len(token.bytes) for token in tokens), initial=0))
    num_whole = bisect_right(ends, len(kept)) - 1
    seam = next(
        (
            at
            for at in range(num_whole - 1, 0, -1)
            if (tokens[at].bytes[:1].isspace() or num_whole - at >= _MAX_HEALED) and _is_text(kept[ends[at] :] + data)
        ),
        0,
    )
    tail = kept[ends[seam] :] + data
    if not _is_text(tail):
        raise RunError("it is no UTF-8 after what is written")
    return [token.token_id for token in tokens[:seam]] + encode(tokenizer, tail.decode())


def replay(
    constraint: Constraint,
    prompt: Sequence[int],
    ids: list[int],
    join: Callable[[Sequence[int]], bytes],
    tokenizer: Any,
) -> list[int]:
    """Follow a constraint from its beginning through given tokens; return those that it has then.

    They are others where it has its own spelling, and more where it forces what comes after them.
    """
    target = join(ids)
    followed = list(constraint.start(prompt).tokens)
    while True:
        if ids[: len(followed)] != followed:
            done = join(followed)
            if done.startswith(target):
                return followed
            if not target.startswith(done):
                raise RunError(f"the constraint continues with {done[-100:]!r}")
            ids = followed + encode(tokenizer, target[len(done) :].decode())
        if len(followed) >= len(ids):
            return followed
        token = ids[len(followed)]
        try:
            backtrack, added = constraint.accept(token)
        except RunError:
            before, refused = join(followed)[-40:], join([token])
            raise RunError(f"the constraint does not allow {refused!r} after {before!r}") from None
        followed = followed[: len(followed) - backtrack] + added


def encode(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text in the middle of another: no special tokens, and no blank that a tokenizer prepends."""
    options = {"add_special_tokens": False, "split_special_tokens": True}
    before = tokenizer(_MARK, **options)["input_ids"]
    ids: list[int] = tokenizer(_MARK + text, **options)["input_ids"]
    return ids[len(before) :] if ids[: len(before)] == before else list(tokenizer(text, **options)["input_ids"])


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
