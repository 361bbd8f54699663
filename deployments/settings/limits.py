"""The limits of a request and of batches: those that a service sets, and those that are fixed.

Each says what a request at the limit costs, and the case that set it.
"""

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

NO_REPEAT_NGRAM_SIZE: Final = 4
"""So many tokens in a row never come twice in constrained text, by default."""

MAX_NGRAM_SIZE: Final = 64

MAX_JSON_DEPTH: Final = 64
"""Costs a stack frame of the JSON decoder each, whose own limit is 200. A deep JSON schema needs 20."""

MAX_MESSAGES: Final = 1000
"""Costs a pass of the chat template each. Set by the body with a million messages."""

MAX_STOP_CHARS: Final = 256
"""Costs as many characters held back in a stream. Set by the stop string of 1 MB."""

MAX_WIDTH: Final = 16
"""Costs a sequence of the batch and its KV cache each: beams, samples to choose from, continuations of a sentence.
Set by ``num_beams = 17``."""

MAX_LOGIT_BIAS: Final = 300
"""Costs an entry of a tensor each. OpenAI's limit."""

MAX_TOKEN_IDS: Final = 1000
"""Entries of ``allowed_token_ids`` and its like. Costs an entry of a tensor each. A label set is far smaller."""

MAX_BAD_WORDS: Final = 100
"""Costs a few tokenised variants each. Set by analogy with ``stop``."""

MAX_LIST_BYTES: Final = 2**20
"""A list's words together, in UTF-8. Costs about 30 times its size in the compile. Matters only where
``max_body_bytes`` is raised."""

MAX_WORD_CHARS: Final = 100
"""Costs as many states of the automaton. Set by the word of 10 KB; the longest in the built-in lists has 45,
and longer entries are phrases."""

MAX_MUST_USE: Final = 32
"""Entries of ``vocab.must_use``. Costs 50 µs each in every mask near their turn. Set by the words of a lesson."""

MAX_CHANGED_WORDS: Final = 1000
"""Entries of ``vocab.extra_words``, and of ``vocab.exclude_words``. Costs 0.1 ms each when they are new. Set by the
names of a long novel, some hundreds."""

MAX_PROMPT_CHARS: Final = 4_000
"""Of a prompt whose words ``vocab.prompt_words`` allows. Costs 1 ms of a thread. One that counts has fewer than 60
words, and is shorter."""

MAX_CHOICES: Final = 1000
"""Entries of ``structured_outputs.choice``. Costs a branch of a grammar each. An enumeration is far smaller."""

MAX_SCHEMA_PARTS: Final = 1000
"""Names and values of a JSON schema, or of those of all tools. Costs 1 s of a compile where they are 500 optional
members; 1,900 take minutes. A form of 100 members has 600."""

MAX_SCHEMA_CHARS: Final = 32 * 1024
"""Names and strings of a JSON schema, or choices, together. Costs 1 s of a compile."""

MAX_SCHEMA_REPEATS: Final = 2000
"""Sum of the lengths and numbers of items that a JSON schema names. Costs up to 5 s of a compile where they
overlap, 0.1 s elsewhere; a sum of 10,000 took more than 30 s."""

MAX_TOOLS: Final = 128
"""Costs a piece of the prompt each. OpenAI's limit."""

MAX_ROWS: Final = 1024
"""Prompts of one request for next-token rows. Costs a request to the engine each. Set by the body with a million
prompts, which is refused before it is looked at; how many fit is said by ``max_rows_bytes`` for most models."""

MAX_SCORED_BYTES: Final = 512 * 2**20
"""Of the log-probabilities of a request for those of given tokens: its tokens, prompt included, times the model's
vocabulary times 4 bytes. Costs twice as much on the engine's device for a step, beside its KV cache: vLLM computes
those of a whole prompt at once. 2,730 tokens of a vocabulary of 49,152, 512 of 262,144."""

MAX_CHECK_BYTES: Final = 2 * 2**20
"""Of the body of a request to check a text. Costs 1.5 s of a thread and 0.1 GB per MB, and up to 50 MB of
answer. Set by a long novel, 2 MB."""

MAX_LISTED: Final = 1000
"""Words of a list in one answer. Costs 60 bytes each. A page that a person reads has 100."""

MAX_TOOL_CHARS: Final = 20_000
"""Of the text of a word tool. Costs its reading; what is computed of it is bounded in tokens. A long article."""

MAX_DOCUMENT_CHARS: Final = 200_000
"""Of the text of a document to print. Costs up to 2 s of a thread, and its size. A book of 40,000 words."""

MAX_NEXT_WORDS: Final = 100
"""Words that are likeliest to come next, or in the place of another. Costs about two rows each."""

MAX_NEXT_ROWS: Final = 256
"""Next-token rows of one search for such words. Costs a sequence of one token in the engine each, 32 at once. Set
by lists of rare words, whose beginnings are likely and which are not."""

MAX_REWRITE_TOKENS: Final = 200_000
"""That are read and drawn to rewrite one text; by estimate 1,000 for a word that is not listed."""

_ANSWER_PER_CHECKED_BYTE: Final = 25


class Limits(BaseModel):
    """How much one request may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_body_bytes: int = Field(default=2**20, ge=1024)
    """Costs about six times its size while it is parsed. 1 MiB holds a prompt of 250,000 tokens, or a list of 50,000
    English or Spanish words, 35,000 Russian ones."""

    max_body_s: float = Field(default=30.0, gt=0)
    """Costs one waiting task. Set by the client that sends one byte a second."""

    max_unread_s: float = Field(default=30.0, gt=0)
    """A client that has read for so long less than ``min_read_bytes_per_s`` of an answer that waits for it is cut.
    Costs 0.6 MB of ingress, HAProxy and kernel until then. Set by the client that reads one byte a second."""

    min_read_bytes_per_s: int = Field(default=64 * 1024, ge=1)
    """Of an answer that waits for its client; one that reads less is cut when it is ``max_unread_s`` behind. Costs
    what waits, in memory, for as long as it takes at this rate: 17 minutes for 64 MiB. Set by the client that took
    2.5 hours to read so many; half a megabit a second. Of most answers nothing waits: 0.5 MB lie in the kernel."""

    max_stop: int = Field(default=4, ge=0)
    """Costs a search of the text per step each. OpenAI's own limit; vLLM's is 64."""

    max_n: int = Field(default=8, ge=1)
    """Costs a sequence of the batch and its KV cache each. Set by ``n = 10**9``."""

    max_top_logprobs: int = Field(default=20, ge=0)
    """Costs a detokenised token per step each. OpenAI's limit and vLLM's default."""

    max_logprobs: int = Field(default=50_000, ge=1)
    """Log-probabilities of one answer: its texts (``n``, prompts) times ``max_tokens`` times the alternatives at each
    token and the token itself. Costs 1 kB and 10 µs of the replica and the ingress each. Set by eight texts of 600
    tokens with 20 alternatives, whose answer has 12 MB."""

    max_list_words: int = Field(default=50_000, ge=1)
    """Entries of ``vocab.words``. Costs up to 5 s of a compile, once, and 10 ms of a thread for the check. Set by the
    longest list that ``max_body_bytes`` lets through in most languages; a learner's dictionary has 20,000."""

    max_input_tokens: int = Field(default=1024, ge=1)
    """Costs KV cache and prefill time. Measured in the replica, after tokenising."""

    max_rows_bytes: int = Field(default=64 * 2**20, ge=2**20)
    """Of the rows of one request: prompts times the model's vocabulary times 4 bytes, or 2 in float16. Costs as much in
    Ray's object store until the client has taken them; an ingress keeps four times as much for all answers that wait,
    three times for one key. 341 rows of 49,152 tokens, 64 of 262,144."""

    max_file_bytes: int = Field(default=20 * 2**20, ge=1024)
    """Of a file whose text is read. Costs its size, and up to 2 GiB in a process of its own. A book with pictures."""

    max_file_s: float = Field(default=30.0, gt=0)
    """To read the text of a file, and of a processor's time. A PDF of 500 pages takes 2 to 4 s."""

    max_file_s_per_minute: float = Field(default=20.0, gt=0)
    """Processor seconds that the files of a key take in each ingress in a minute; costs a third of a core. A key that
    has used them up waits until those of its last file are made up for. Set by a class that sends its books at once."""

    max_new_tokens: int = Field(default=1024, ge=1)
    """Costs a step of the engine each. Also the default of a request that names no number."""

    max_grammar_tokens: int = Field(default=1024, ge=1)
    """The same beside ``structured_outputs.regex`` and ``grammar``, whose masks may take the longer the longer the text
    is. Costs a mask each: 0.1 ms, of those that explode 5 to 50 ms until they are ended."""

    allowed_new_tokens: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """The only numbers that a request may name for that, instead of any up to it; the largest is the default. Set by
    services whose prices have steps."""

    @property
    def max_answer_bytes(self) -> int:
        """Bytes of the largest whole answer: rows, or the check of the longest text."""
        return max(self.max_rows_bytes, _ANSWER_PER_CHECKED_BYTE * MAX_CHECK_BYTES)

    @model_validator(mode="before")
    @classmethod
    def _refuse_fixed(cls, values: Any) -> Any:
        for name in values if isinstance(values, dict) else ():
            if name not in cls.model_fields and (fixed := globals().get(str(name).upper())) is not None:
                raise ValueError(f"limits.{name} is no longer a setting: it is always {fixed}; leave it out")
        return values

    @model_validator(mode="after")
    def _check_allowed(self) -> Self:
        if max(self.allowed_new_tokens, default=0) > self.max_new_tokens:
            raise ValueError("expected no number in allowed_new_tokens above max_new_tokens")
        return self


class BatchLimits(BaseModel):
    """How much batches may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_file_bytes: int = Field(default=200 * 2**20, ge=1024)
    """Costs its size in the folder of files, and its size on the ingress's disk (``TMPDIR``) while it arrives. Where no
    front stands before it, Serve reads ahead of it in memory, in the ingress and in its proxy. OpenAI's limit."""

    max_upload_s: float = Field(default=600.0, gt=0)
    """Costs one waiting task. 200 MB over a line of 3 Mbit/s."""

    max_lines: int = Field(default=100_000, ge=1)
    """Costs a row of the database each, 2 KB with its answer, until the batch ends. OpenAI's limit is 50,000."""

    max_open: int = Field(default=1000, ge=1)
    """Batches that are not at their end. Costs a row each."""

    max_open_per_key: int = Field(default=100, ge=1)
    """The same for one key, so that one client leaves room for others."""

    max_bytes_per_key: int = Field(default=20 * 2**30, ge=1024)
    """Files of one key together. Costs as many bytes of the folder."""

    retention_s: int = Field(default=30 * 86400, ge=60)
    """Files are deleted so long after they came or were made, and batches so long after they ended. OpenAI's number."""
