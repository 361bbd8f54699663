"""The vocabulary in a request: the object ``vocab``, and the two flat fields that stand for it.

Whether the list exists, and whether the model can spell its words, only the vocabulary deployment knows.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, model_validator

from deployments.contract import AUTO_ADAPTER, VocabularySpec
from deployments.errors import BadRequestError
from deployments.protocol.decoding import AuthorMembers, DecodingMembers
from deployments.protocol.validation import INT64_MAX, AtMost, Body, ModelName, at_most, expected_error
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_LIST_BYTES, MAX_PROMPT_CHARS, MAX_WORD_CHARS
from vocab.errors import InvalidWordListError, OptionsError, WordListError
from vocab.lists.entries import clean_words
from vocab.lists.levels import BANDS, language_of_level
from vocab.lists.wordlists import NO_LANGUAGE, Unit, language_of, language_tag, unspaced_language
from vocab.marks import APOSTROPHES, CLOSE_MARKS, OPEN_MARKS, POSSESSIVE_LETTER, unspaced_marks
from vocab.options import Case, End, Layout, Punctuation, Segmentation
from vocab.text.forms import ELISION_LANGUAGES, POSSESSIVE_LANGUAGES

_LIST_NAME: Final = (
    "the name of a word list, a string of at least 1 and at most 64 characters without control characters"
)

_POSSESSIVES: Final = tuple(mark + POSSESSIVE_LETTER for mark in APOSTROPHES)


def _check_printable(name: str) -> str:
    if not name.isprintable():
        raise expected_error(_LIST_NAME)
    return name


def _check_bytes(words: list[str]) -> list[str]:
    if len("".join(words).encode()) > MAX_LIST_BYTES:
        raise expected_error(f"a list of words of at most {MAX_LIST_BYTES} bytes together")
    return words


ListName = Annotated[
    str,
    Field(min_length=1, max_length=64, json_schema_extra={"x-expected": _LIST_NAME}),
    AfterValidator(_check_printable),
]
LevelName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_check_printable)]
NumWords = Annotated[int, Field(ge=1, le=INT64_MAX)]
Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_CHARS)]
ChangedWords = Annotated[list[Word], at_most(MAX_CHANGED_WORDS), AfterValidator(_check_bytes)]


class ListMembers(Body):
    lang: ListName | None = None
    """The list, such as ``en``, or a language tag that means one, as ``en-US``; beside ``words`` the language whose
    rules of spelling hold."""
    n_words: NumWords | None = None
    """How many of its words count, in rank order; by default all."""
    level: LevelName | None = None
    """A named level instead: ``top-1000``, ``A2``, ``ngsl-1``. ``lang`` may be left out where it is of one language."""
    unit: Unit | None = None
    """What has a rank of its own: each ``form`` (the default), or each ``lemma`` with all its forms; words of your own
    get those of the language's built-in list."""
    safe: bool | None = None
    """Whether profanity is left out of a language's built-in list; by default it is."""
    words: Annotated[list[Word], Field(min_length=1), AtMost("max_list_words"), AfterValidator(_check_bytes)] | None = (
        None
    )
    """A list of your own, in rank order, instead of a list of that name."""
    extra_words: ChangedWords | None = None
    """Allowed besides, whatever ``n_words``."""
    exclude_words: ChangedWords | None = None
    """Left out, in every form."""
    case: Case | None = None
    """Which capitals are allowed; by default ``auto``."""
    numbers: bool | None = None
    """Whether numbers in digits are allowed; by default they are not."""
    punctuation: Punctuation | None = None
    """Which marks are allowed: ``standard``, those of the language's printed prose, quotation marks and brackets in
    pairs (the default); ``full``, all, unpaired; ``basic``, sentence marks and the comma; ``none``."""
    layout: Layout | None = None
    """Whether the text is ``prose`` (the default) or ``lines``."""
    end: End | None = None
    """Where a text may end: after a ``sentence`` (the default where there are marks) or a ``word``."""
    segmentation: Segmentation | None = None
    """How a text of a language without spaces is cut into words (zh, ja, th): each is the ``longest`` of the language's
    dictionary (the default), or there is ``any`` way to cut the text into listed words."""
    possessive: bool | None = None
    """Whether an English word may take 's, and so may added ones; by default only those of a built-in list may."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_source(cls, value: Any) -> Any:
        if isinstance(value, dict) and "source" in value:
            raise expected_error(
                "left out: the raw list that it could name is gone. For words that a built-in list lacks, name a list "
                "file of the service by 'lang', or send a list of your own as 'words'",
                ".source",
            )
        return value


class Vocabulary(DecodingMembers, AuthorMembers, ListMembers):
    """The words that the answer may consist of, and how such a text is chosen. ``lang`` or ``words`` must be there."""

    adapter: ModelName | None = None
    """The adapter that writes: ``auto``, one that was trained for such lists, if there is one (the default); its name;
    or null for none."""
    prompt_words: bool | Annotated[str, Field(max_length=MAX_PROMPT_CHARS)] | None = None
    """Whether words of the last user message that are not listed are allowed too, at most eight, with their listed
    forms; of a check, the text of the prompt. The answer names them."""

    def spec(self) -> VocabularySpec:
        """Check the members of ``vocab`` together, and return the ``VocabularySpec`` that they ask for.

        Raises:
            BadRequestError: The members do not go together, or an entry cannot be a word.
        """
        self._check_level()
        if self.lang is None and self.words is None and self.level is None:
            raise BadRequestError(
                "'vocab' needs 'lang', the name of a word list, or 'words', a list of its own: add one of them.",
                "vocab.lang",
            )
        if self.words is not None and self.safe is not None:
            raise BadRequestError(
                "'vocab.safe' is about a language's own list, and 'words' count as they are: leave 'safe' out, or name "
                "a list by 'lang' and leave 'words' out.",
                "vocab.safe",
            )
        if self.words is not None and self.unit == "lemma" and self.lang is None:
            raise BadRequestError(
                "'vocab.unit' can be 'lemma' beside 'words' only where 'lang' says of which language they are, for its "
                "forms: name it by 'lang', or leave 'unit' out.",
                "vocab.unit",
            )
        if self.prompt_words and self.words is not None and self.lang is None:
            raise BadRequestError(
                "'vocab.prompt_words' needs the language of 'words', whose own list knows the words of a prompt: name "
                "it by 'lang', or name the words in 'extra_words'.",
                "vocab.prompt_words",
            )
        if self.words is not None and self.lang is not None:
            try:
                language_tag(self.lang)
            except WordListError as error:
                raise BadRequestError(str(error), "vocab.lang", "invalid_vocabulary") from None
        lang = self._language()
        unspaced = unspaced_language(lang)
        if self.segmentation is not None and unspaced is None:
            of_what = "of no language" if lang is None else f"of {lang[:40]!r}"
            raise BadRequestError(
                "'vocab.segmentation' is about languages written without spaces (zh, zh-Hant, ja, th), and this list "
                f"is {of_what}: leave it out, or name such a language by 'lang'.",
                "vocab.segmentation",
            )
        if self.possessive and language_of(lang or NO_LANGUAGE) not in POSSESSIVE_LANGUAGES:
            raise BadRequestError(
                "'vocab.possessive' can be true of English only, whose words may take 's: leave it out, or name the "
                "language of 'words' by 'lang'.",
                "vocab.possessive",
            )
        members = {name: getattr(self, name) for name in ListMembers.model_fields}
        given: dict[str, Any] = {
            name: clean_entries(value, f"vocab.{name}", unspaced) if isinstance(value, list) else value
            for name, value in members.items()
            if value is not None
        }
        if self.level is not None:
            given["lang"] = lang
            if self.level in BANDS:
                given |= {"level": None, "n_words": BANDS[self.level]}
        spec = VocabularySpec(**given)
        try:
            _ = spec.options
        except OptionsError as error:
            raise BadRequestError(str(error), "vocab.end") from None
        _check_changes(spec, "vocab.extra_words", "extra_words")
        spec = self.with_words(spec)
        _check_changes(spec, "vocab.must_use", "'vocab.must_use'")
        return spec

    def _language(self) -> str | None:
        """Return the list that ``lang`` names, or the level's; None for none.

        Raises:
            BadRequestError: There is no such level, or it is of another language.
        """
        if self.level is None:
            return self.lang
        try:
            return language_of_level(self.level, self.lang)
        except WordListError as error:
            raise BadRequestError(str(error), "vocab.level", "invalid_vocabulary") from None

    def _check_level(self) -> None:
        if self.level is None:
            return
        for name in ("n_words", "words", "unit"):
            if getattr(self, name) is not None:
                raise BadRequestError(
                    f"'vocab.level' says which words count, and so does {name!r}: leave one of them out.",
                    f"vocab.{name}",
                )


def _check_changes(spec: VocabularySpec, param: str, shown: str) -> None:
    """Refuse a word that is added and left out; an error calls the added words ``shown``."""
    try:
        spec.changes.check(language_of(spec.lang or NO_LANGUAGE))
    except OptionsError as error:
        raise BadRequestError(str(error).replace("extra_words", shown), param) from None


def clean_entries(words: Sequence[str], field: str, unspaced: str | None = None) -> tuple[str, ...]:
    """Return words as a list has them; ``unspaced`` is as in ``clean_words``.

    Raises:
        BadRequestError: An entry cannot be a word; ``param`` is its place in ``field``.
    """
    try:
        return clean_words(words, field, unspaced)
    except InvalidWordListError as error:
        # "vocab.words[3]: a control character …"
        message = str(error)
        raise BadRequestError(message, message.partition(":")[0]) from None


def without_bad_words(spec: VocabularySpec, bad_words: list[str]) -> VocabularySpec:
    """Exclude ``bad_words`` from a vocabulary; vLLM would take them out of a mask that may have nothing else.

    Raises:
        BadRequestError: One is not a single word, so that leaving it out of a list would not keep it out of a text; or
            the vocabulary adds it.
    """
    language = language_of(spec.lang or NO_LANGUAGE)
    for index, word in enumerate(bad_words):
        if fault := _not_one_word(word.strip(), language, spec.segmentation):
            raise BadRequestError(
                f"'bad_words[{index}]' must be a single word with a vocabulary, whose texts are kept free of it by "
                f"leaving it out of the list; this one {fault}.",
                f"bad_words[{index}]",
            )
    try:
        cleaned = clean_words(bad_words, "bad_words")
        less = spec.model_copy(update={"exclude_words": tuple(dict.fromkeys([*spec.exclude_words, *cleaned]))})
        less.changes.check(language)
    except (InvalidWordListError, OptionsError) as error:
        raise BadRequestError(str(error).replace("exclude_words", "bad_words"), "bad_words") from None
    return less


def _not_one_word(text: str, language: str, segmentation: Segmentation) -> str | None:
    """Return why excluding a word from a list would not keep it out of a text; None if it would."""
    if not any(map(str.isalpha, text)):
        return "has no letter"
    marks = unspaced_marks(language)
    if any(char.isspace() or char in CLOSE_MARKS + OPEN_MARKS or char in marks for char in text):
        return "has a blank or a mark"
    if marks and segmentation == "any" and len(text) > 1:
        return "may be written as several words, for 'vocab.segmentation' is 'any'"
    has_apostrophe = any(mark in text for mark in APOSTROPHES)
    if language in ELISION_LANGUAGES and has_apostrophe:
        return "has an apostrophe, after which another word begins"
    if language in POSSESSIVE_LANGUAGES and text.endswith(_POSSESSIVES):
        return "is a form of the word before the apostrophe: name that"
    return None


class VocabularyFields(Body):
    vocab: Vocabulary | None = None
    """The words that the answer may consist of."""
    vocab_lang: ListName | None = None
    """With ``vocab_n_words`` short for a ``vocab`` of ``lang`` and ``n_words``."""
    vocab_n_words: NumWords | None = None
    """How many words of the list ``vocab_lang`` count."""

    def vocabulary(self) -> VocabularySpec | None:
        """Return the ``VocabularySpec`` of ``vocab`` or the flat fields; None where they name none.

        Raises:
            BadRequestError: The fields do not go together, or an entry cannot be a word.
        """
        flat = [name for name in ("vocab_lang", "vocab_n_words") if getattr(self, name) is not None]
        if self.vocab is not None:
            if flat:
                raise BadRequestError("Give either 'vocab' or the two flat fields, not both: leave one out.", flat[0])
            return self.vocab.spec()
        for name in ("vocab_lang", "vocab_n_words"):
            if flat and name not in flat:
                raise BadRequestError(
                    f"'{flat[0]}' needs '{name}': add '{name}', or leave both out for free text.", name
                )
        return VocabularySpec(lang=self.vocab_lang, n_words=self.vocab_n_words) if flat else None

    @property
    def adapter(self) -> str | None:
        """The adapter asked for: a name, None for null, ``AUTO_ADAPTER`` where the member is missing."""
        is_given = self.vocab is not None and "adapter" in self.vocab.model_fields_set
        return self.vocab.adapter if is_given and self.vocab is not None else AUTO_ADAPTER

    @property
    def list_param(self) -> str:
        """The field that names the list, for errors that only the vocabulary deployment finds."""
        if self.vocab is None:
            return "vocab_lang"
        return "vocab.lang" if self.vocab.words is None else "vocab.words"
