"""What a service answers about word lists and texts, as typed dictionaries: for its document and for its clients."""

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

Reason: TypeAlias = Literal[
    "listed", "capitals", "spelling", "added", "number", "new", "name", "rare", "excluded", "unknown", "symbol"
]
"""Why a word is allowed: the list has it, or has it in other capitals or another spelling of the same letters, or it
was added, or it is a number. Why it is not: it was declared to be new, it is a name and those are kept, its rank is
beyond N (or it lacks the capital that the list has), it was left out, the list does not have it, or it is no word at
all, such as an emoji."""

ExerciseKind: TypeAlias = Literal["questions", "true_false", "gap_fill", "matching", "order", "dictation"]


class ListVocabulary(TypedDict):
    id: str
    """What ``vocab.lang`` names, or ``vocab.level``."""
    object: Literal["vocabulary"]
    kind: Literal["language", "file", "level"]
    source: str
    """``cleaned`` or ``file``; of a level ``list``, the language's own, or whose it is."""
    languages: list[str]
    """Empty for a level that every language has."""
    readings: bool
    """Whether a check can tell how its words are read."""
    names: bool
    """Whether a check can keep names apart."""
    inflected: bool
    """Whether a check knows the endings of its words."""


class VocabularyList(TypedDict):
    object: Literal["list"]
    data: list[ListVocabulary]


class VocabularyWord(TypedDict):
    rank: int
    word: str
    lemma: str | None
    """Null where it is not known."""


class VocabularyWords(TypedDict):
    object: Literal["list"]
    id: str
    total: int
    """Of all words that fit."""
    has_more: bool
    data: list[VocabularyWord]


class ReadEntry(TypedDict):
    rank: int
    """From 1; the words of one row share it."""
    word: str
    level: str | None
    """The lowest that stands beside it."""
    forms: list[str]
    line: int
    sheet: str | None
    """Of a file with several."""


class LeftOutRow(TypedDict):
    line: int
    text: str
    reason: str
    sheet: str | None


class ReadVocabulary(TypedDict):
    object: Literal["vocabulary.entries"]
    entries: list[ReadEntry]
    num_ranks: int
    levels: list[str]
    """The lowest first."""
    columns: dict[str, str]
    """Which column each of ``word``, ``level`` and ``forms`` was: its name, or its number."""
    shapes: list[str]
    """What was read in a special way, in words for people."""
    encoding: str | None
    left_out: list[LeftOutRow]
    """The first rows of which no word was taken."""
    num_left_out: int
    """All of them."""


class NearestWord(TypedDict):
    word: str
    rank: int | None


class WordNotAllowed(TypedDict):
    pointer: NotRequired[str]
    """Of JSON, to the string; its line is the number of the string."""
    line: int
    column: int
    start: int
    """In code points, from 0."""
    end: int
    word: str
    rank: int | None
    """Null where the list lacks it."""
    lemma: str | None
    """Null where it is not known."""
    reason: Reason
    nearest: list[NearestWord]


class AllowedWord(TypedDict):
    word: str
    rank: int | None
    reason: Reason
    count: int


class RankBand(TypedDict):
    max_rank: int | None
    """The largest rank; null for all other words."""
    num_words: int
    num_distinct_words: int


class NewWord(TypedDict):
    word: str
    count: int


class CheckedSentence(TypedDict):
    start: int
    end: int
    line: int
    num_unlisted: int
    """Of the different words that are not in the list, new ones too; names and symbols are none of them."""
    unlisted: list[str]
    text: NotRequired[str]
    """Where there is exactly one."""


class RunningWord(TypedDict):
    start: int
    end: int
    rank: int | None
    reason: Reason
    lemma: str | None
    reading: NotRequired[str | None]
    """Where it was asked for; null for a word without Chinese characters, and where it is not known."""


class PromptWord(TypedDict):
    word: str
    rank: int
    """In the language's list."""
    forms: list[str]
    """Its other forms that are allowed too."""


class CheckReport(TypedDict):
    object: Literal["vocabulary.report"]
    file: str | None
    num_words: int
    num_allowed: int
    num_distinct_words: int
    num_distinct_allowed: int
    num_symbols: int
    """Of ``not_allowed``: emoji and other characters that are shown and are no part of a word, number or mark."""
    coverage: float | None
    """The share of words and symbols that are allowed, new words and names aside; null where there are no words."""
    num_new: int
    coverage_with_new: float | None
    has_exactly_the_new_words: bool
    """Whether the list lacks the ``new_words`` and no others, and each is used."""
    bands: list[RankBand]
    allowed: list[AllowedWord]
    not_allowed: list[WordNotAllowed]
    """The first 100,000 places."""
    num_not_allowed: int
    new: list[WordNotAllowed]
    new_words: list[NewWord]
    num_names: int
    """Which ``coverage`` leaves out."""
    names: list[NewWord]
    """By spelling, where ``names`` are kept."""
    sentences: NotRequired[list[CheckedSentence]]
    """Where they were asked for; the first 100,000."""
    num_sentences: NotRequired[int]
    num_sentences_with_one: NotRequired[int]
    """Those with exactly one different word that is not in the list."""
    words: NotRequired[list[RunningWord]]
    """Where it was asked for: all words, numbers and symbols in their order; the first 100,000."""
    prompt_words: NotRequired[list[PromptWord]]
    """Where a prompt was given: what it allows."""


class PromptTokensDetails(TypedDict):
    cached_tokens: NotRequired[int | None]
    """Tokens of the prompt that the engine had computed before."""


class Timing(TypedDict):
    """How long an answer took, as far as its engine says."""

    queue_time_ms: NotRequired[float | None]
    """In the engine's queue."""
    time_to_first_token_ms: NotRequired[float | None]
    """From there to the first token."""
    generation_time_ms: NotRequired[float | None]
    """From the first token to the last."""
    mean_itl_ms: NotRequired[float | None]
    """Between two tokens."""
    tokens_per_second: NotRequired[float | None]
    total_time_ms: float
    """In the replica, from the request's turn to the usage."""


class Usage(TypedDict):
    prompt_tokens: int
    completion_tokens: NotRequired[int]
    total_tokens: int
    prompt_tokens_details: NotRequired[PromptTokensDetails | None]
    timing: NotRequired[Timing | None]
    """Of chats and completions."""


class TopLogprobs(TypedDict):
    object: Literal["logprobs"]
    index: int
    token_ids: list[int]
    """The likeliest tokens after the prompt, the likeliest first."""
    logprobs: list[float]


class LogprobsList(TypedDict):
    """With ``top_logprobs``. Without it: all numbers as little-endian bytes, row by row; the headers
    ``x-wordbound-shape`` ("prompts,tokens"), ``x-wordbound-dtype`` and ``x-wordbound-prompt-tokens`` describe them."""

    object: Literal["list"]
    model: str
    data: list[TopLogprobs]
    usage: Usage


class TokenLogprobs(TypedDict):
    object: Literal["token_logprobs"]
    model: str
    logprobs: list[float]
    usage: Usage


class TokenTable(TypedDict):
    object: Literal["tokens"]
    model: str
    vocab_size: int
    tokens: list[str]
    """The bytes of each token in base64; of a special token those of its name. Empty where the model has a number and
    the tokenizer no token."""
    special_ids: list[int]
    eos_token_ids: list[int]


class NextWord(TypedDict):
    word: str
    """As it would be written there."""
    logprob: float
    probability: float
    """The model's own, of all that may come next and not only of the list."""
    rank: int


class NextWords(TypedDict):
    object: Literal["vocabulary.next"]
    model: str
    data: list[NextWord]
    """The likeliest first."""
    remainder: float
    """The probability of everything else: other words, marks, the end of the text."""
    vocab: dict[str, Any]
    """The list, as in the answer to a chat."""
    usage: Usage


class OtherWord(TypedDict):
    word: str
    text: str
    """The sentence with it."""
    logprob: float
    """Of the word and the rest of the sentence, after what stands before them."""
    rank: int


class OtherWords(TypedDict):
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


Change = TypedDict("Change", {"start": int, "end": int, "from": str, "to": str})


class Coverage(TypedDict):
    before: float | None
    after: float | None


class RewrittenText(TypedDict):
    """The answer; with ``stream`` server-sent events of ``{"text": …}``, a part each, then one of this object, then
    ``[DONE]``."""

    object: Literal["vocabulary.rewrite"]
    model: str
    text: str
    changes: list[Change]
    """Where the words begin and end in the text of the request, in code points, and what they became."""
    names: list[str]
    """What was kept besides the words of the list."""
    coverage: Coverage
    """The share of running words that are listed, names that are kept too; null where there are no words."""
    vocab: dict[str, Any]
    """The list with the names, as in the answer to a chat."""
    usage: Usage


class FewerItems(TypedDict):
    kind: ExerciseKind
    num_items: int
    reason: str
