"""The process that tries clients' schemas, expressions and grammars: ``python -m vocab.compiler.structure_worker``.

What it is sent first is the tokenizer (xgrammar's ``TokenizerInfo`` as JSON), and then jobs
(``vocab.compiler.jobs.CheckStructure``). Each job runs in a fork with limits of its own: what takes too long, grows or
crashes ends the fork alone, and the libraries, which take 4 s and 300 MB, are loaded once.
"""

import gc
import re
from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from time import thread_time
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from vocab.automaton.tokenizer import TokenizerFacts
from vocab.compiler.child_process import connect_to_parent, in_fork, receive_jobs, resident_bytes
from vocab.compiler.jobs import CheckStructure, Reply
from vocab.errors import StructureError
from vocab.matching.client_limits import LARK_LIMITS, MAX_CHECKED_S, NUM_CHECKED
from vocab.matching.structure.graph import Graph
from vocab.matching.structure.needs import ENDLESS, measure
from vocab.matching.structure.schema import PreparedSchema
from vocab.matching.structure.tokens import StructureTokens

MAX_CPU_S: Final = 2
"""Of one job. 500 optional members take 1 s. The engine compiles again what passes, one after the other, and the
grammars of others wait for it there."""

MAX_BYTES: Final = 2**30
"""Of one job, beside what the process had."""

NUM_MASKED: Final = 64
"""Of the tokens that are followed through a compiled grammar, so many have a mask each, for the engine waits for each.
Later ones repeat, as far as they may, and have one in ``_MASK_EVERY``."""

_MASK_EVERY: Final = 16

_MAX_REASON_CHARS: Final = 100

_STRING_TOKENS: Final = 3
"""Of a string in a list that is not known here: its words are fewer tokens or more."""

_NO_TEXT: Final = "no finite text fits it"
_TOO_SLOW: Final = f"it takes more than {MAX_CPU_S} s of processor time to compile and to follow; make it smaller"
_SLOW_MASKS: Final = (
    f"it takes the engine more than {MAX_CHECKED_S * 1000:g} ms of processor time for each token; make it smaller or "
    "less ambiguous, or ask for fewer tokens"
)
_TOO_LARGE: Final = "it takes too much memory to compile, or is nested too deeply; make it smaller"


def main() -> None:
    """Run the structure process: schemas and grammars come through its pipe, and replies go back."""
    connection = connect_to_parent()
    # torch comes with it.
    import xgrammar

    info = xgrammar.TokenizerInfo.deserialize_json(connection.recv_bytes().decode())
    lark_tokenizer = LarkTokenizer(info)
    spelled = SpelledTokens(info)
    gc.freeze()
    connection.send("structures")
    for job in receive_jobs(connection):
        connection.send("started")
        check = partial(fault_of, job, info, spelled)
        if job.language == "lark":
            check = partial(lark_fault_of, job, lark_tokenizer.get(), spelled)
        elif job.language == "listed":
            check = partial(listed_fault_of, job.text, lark_tokenizer.listed)
        fault = fault_in_fork(check)
        error = StructureError(fault) if fault else None
        connection.send(Reply(error=error, resident_bytes=resident_bytes()))


class Followed(Protocol):
    """A compiled grammar at a place in a text."""

    def mask(self) -> npt.NDArray[np.uint8]:
        """Return what may come next, a bit for each token; raise ``StructureError`` where it cannot be computed."""

    def accept(self, token: int) -> bool:
        """Advance by a token, or stay and return False."""

    def is_at_end(self) -> bool: ...


class SpelledTokens:
    """The tokens that have a text, by its length in bytes."""

    def __init__(self, info: Any) -> None:
        special = {*info.special_token_ids, *info.stop_token_ids}
        lengths = np.array([0 if i in special else len(token) for i, token in enumerate(info.decoded_vocab)])
        by_length = np.argsort(lengths, kind="stable")
        self._from_shortest = by_length[np.count_nonzero(lengths == 0) :]

    def choose(self, mask: npt.NDArray[np.uint8], *, longest: bool) -> int | None:
        """Return the shortest or longest token of a mask, any where it has none with a text, None where it has none."""
        bits = np.unpackbits(mask, bitorder="little")
        order = self._from_shortest[::-1] if longest else self._from_shortest
        # Nearly always among the first.
        for part in (order[:1024], order):
            allowed = bits[part]
            if (index := int(allowed.argmax())) < allowed.size and allowed[index]:
                return int(part[index])
        return int(bits.argmax()) if bits.any() else None


def fault_of(job: CheckStructure, info: Any, spelled: SpelledTokens) -> str:
    """Return why xgrammar cannot compile and follow a schema, expression or EBNF; empty where it can."""
    import xgrammar

    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    try:
        compile_text = {
            "json_schema": compiler.compile_json_schema,
            "regex": compiler.compile_regex,
            "ebnf": compiler.compile_grammar,
        }[job.language]
        compiled = compile_text(job.text)
    except RuntimeError as error:
        return _TOO_LARGE if "bad_alloc" in str(error) else _reason(str(error))
    return _fault_on_ways(
        lambda: _FollowedByXgrammar(xgrammar.GrammarMatcher(compiled), info.vocab_size), spelled, job.num_tokens
    )


def lark_fault_of(job: CheckStructure, tokenizer: Any, spelled: SpelledTokens) -> str:
    """Return why llguidance cannot compile and follow a grammar in Lark; empty where it can."""
    import llguidance

    limits = llguidance.LLParserLimits(**LARK_LIMITS)
    grammar = llguidance.LLMatcher.grammar_from_lark(job.text)
    matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0, limits=limits)
    # A copy each: one that has token limits or stops of its own cannot go back to its start.
    return _fault_on_ways(lambda: _FollowedByLlguidance(matcher.deep_copy()), spelled, job.num_tokens)


def _fault_on_ways(begin: Callable[[], Followed], spelled: SpelledTokens, num_tokens: int) -> str:
    """Return why a text of the shortest or the longest tokens cannot be followed; empty where both can."""
    for longest in (False, True):
        try:
            if fault := _fault_on_way(begin(), spelled, num_tokens, longest=longest):
                return fault
        except StructureError as error:
            return str(error)
    return ""


def _fault_on_way(followed: Followed, spelled: SpelledTokens, num_tokens: int, *, longest: bool) -> str:
    token, costs_s = None, deque[float]([0.0] * NUM_CHECKED, NUM_CHECKED)
    for number in range(num_tokens):
        if number >= NUM_MASKED and number % _MASK_EVERY and token is not None and followed.accept(token):
            continue
        started_s = thread_time()
        mask = followed.mask()
        masked_s = thread_time()
        if (token := spelled.choose(mask, longest=longest)) is None:
            return _NO_TEXT
        chosen_s = thread_time()
        if not followed.accept(token) or followed.is_at_end():
            break
        costs_s.append(masked_s - started_s + thread_time() - chosen_s)
        if sum(costs_s) > MAX_CHECKED_S * NUM_CHECKED:
            return _SLOW_MASKS
    return ""


class _FollowedByXgrammar:
    def __init__(self, matcher: Any, vocab_size: int) -> None:
        import xgrammar

        self._matcher = matcher
        self._bitmask = xgrammar.allocate_token_bitmask(1, vocab_size)

    def mask(self) -> npt.NDArray[np.uint8]:
        self._matcher.fill_next_token_bitmask(self._bitmask)
        return self._bitmask.numpy()[0].view(np.uint8)  # type: ignore[no-any-return]  # torch's has no type here

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    def is_at_end(self) -> bool:
        return bool(self._matcher.is_terminated())


class _FollowedByLlguidance:
    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def mask(self) -> npt.NDArray[np.uint8]:
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        return mask

    def accept(self, token: int) -> bool:
        # One that is refused would be the end of this matcher.
        if not self._matcher.validate_tokens([token]):
            return False
        self._matcher.consume_token(token)
        self._check()
        return True

    def is_at_end(self) -> bool:
        return bool(self._matcher.is_stopped())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise StructureError(_lark_reason(self._matcher.get_error()))


class LarkTokenizer:
    """llguidance's tokenizer, made of xgrammar's when the first grammar in Lark comes, in half a second."""

    def __init__(self, info: Any) -> None:
        self._info = info
        self._made: Any = None
        self.eos_token_id = int(info.stop_token_ids[0])
        self.bos_token_id = None
        self.special_token_ids = list(info.special_token_ids)
        self._id_of = {token: i for i, token in enumerate(info.decoded_vocab) if token}
        self._max_bytes = max(map(len, self._id_of), default=1)

    @property
    def tokens(self) -> list[bytes]:
        """The bytes of each token; special ones are marked, as llguidance has them."""
        special = {*self.special_token_ids, *self._info.stop_token_ids}
        return [
            b"\xff[%d]" % i if i in special or not token else token for i, token in enumerate(self._info.decoded_vocab)
        ]

    def __call__(self, text: bytes | str) -> list[int]:
        """Spell a text by the longest token each time, as any spelling will do for what is tried."""
        data = text.encode() if isinstance(text, str) else text
        ids: list[int] = []
        while data:
            ends = range(min(len(data), self._max_bytes), 0, -1)
            longest = next((end for end in ends if data[:end] in self._id_of), None)
            if longest is not None:
                ids.append(self._id_of[data[:longest]])
            data = data[longest or 1 :]
        return ids

    @cached_property
    def listed(self) -> StructureTokens:
        """The tokens as JSON answers in listed words see them."""
        special = {*self.special_token_ids, *self._info.stop_token_ids}
        return StructureTokens(TokenizerFacts.from_token_bytes(self._info.decoded_vocab, sorted(special)))

    def get(self) -> Any:
        """Return the ``LLTokenizer``."""
        if self._made is None:
            import llguidance

            self._made = llguidance.LLTokenizer(llguidance.TokenizerWrapper(self))
        return self._made


def listed_fault_of(text: str, tokens: StructureTokens) -> str:
    """Return why a prepared schema cannot be followed; empty where it can."""
    schema = PreparedSchema.from_text(text)
    try:
        graph = Graph.of(schema)
    except StructureError as error:
        return str(error)
    needs = measure(graph, tokens, [_STRING_TOKENS] * len(schema.kinds))
    return "" if needs[graph.starts[graph.root]].num_tokens < ENDLESS else _NO_TEXT


def _lark_reason(message: str) -> str:
    """Shorten an error of llguidance's, without the state of its parser."""
    reason = message.split(" <state>")[0]
    return _NO_TEXT if reason.startswith("NoExtension") else _reason(reason)


def fault_in_fork(check: Callable[[], str]) -> str:
    """Run a check in a fork with limits of time and memory; return its result, or the limit that it reached."""
    try:
        return in_fork(check, MAX_CPU_S, MAX_BYTES)
    except TimeoutError:
        return _TOO_SLOW
    except MemoryError:
        return _TOO_LARGE


def _reason(message: str) -> str:
    """Shorten a library's error to one line, without time, file and line number: it may repeat the schema."""
    reason = re.sub(r"^\[[\d:]+\] \S+: ", "", message[: 4 * _MAX_REASON_CHARS])
    shown = "".join(character if character.isprintable() else " " for character in reason).strip()
    return shown if len(shown) <= _MAX_REASON_CHARS else shown[: _MAX_REASON_CHARS - 1] + "…"


if __name__ == "__main__":
    main()
