"""Every error of the library, as one tree, with the HTTP status that the service answers each with.

VocabularyError
├── WordListError                    the list cannot be used: the caller's mistake
│   ├── UnknownLanguageError    400
│   ├── UnknownLevelError       400
│   ├── UnsupportedScriptError  400
│   ├── EmptyWordListError      400
│   ├── NoLemmasError           400
│   ├── InvalidWordListError    400
│   └── ListTooLargeError       400
│       └── ChangesTooLargeError  400
├── OptionsError                400  the caller's mistake
│   └── SegmentationError       400
├── StructureError              400  the caller's mistake
├── TokenBudgetError            400  the caller's mistake
├── PrefillError                400  the caller's mistake
├── CompileError                500  our fault
│   ├── CompileTimeoutError     503
│   └── CompileQueueError       429
├── DocumentError               400  the caller's mistake
├── LanguageError               400  the caller's mistake
├── WordListFolderError         500  the operator's mistake; at the start, the service does not start
├── DeadEndError                500  our fault
└── ArtefactError               500  our fault
"""


class VocabularyError(Exception):
    """Base of the library's errors; the message of each says what to change."""


class WordListError(VocabularyError):
    """The list asked for cannot be used."""


class UnknownLanguageError(WordListError):
    """There is no list of that name; the message lists the known ones."""


class UnknownLevelError(WordListError):
    """There is no level of that name, or its file is missing; the message says what to bring."""


class UnsupportedScriptError(WordListError):
    """The language is written without spaces, and there is no dictionary to find its words with."""


class EmptyWordListError(WordListError):
    """The list has no words, or none of them is left."""


class NoLemmasError(WordListError):
    """The lemmas of the language are not known; the message lists the languages with lemmas."""


class InvalidWordListError(WordListError):
    """A line of a list file, or an entry of a client's list, cannot be a word; the message names it."""


class ListTooLargeError(WordListError):
    """A list takes more work or memory than a list may; the message says what of it to shorten."""


class ChangesTooLargeError(ListTooLargeError):
    """A list takes too much work or memory with the words that a request adds or leaves out."""


class WordListFolderError(VocabularyError):
    """The folder of list files that was named is not there, or cannot be read; the message names it."""


class OptionsError(VocabularyError):
    """Options contradict one another, or a word is both added and left out."""


class SegmentationError(OptionsError):
    """A grammar cannot say that each word is the longest one of a dictionary."""


class StructureError(VocabularyError):
    """A JSON schema or grammar cannot be compiled; half a sentence says why, for the caller to say which."""


class TokenBudgetError(VocabularyError):
    """No text of the list fits into the number of tokens asked for."""


class PrefillError(VocabularyError):
    """The beginning of an answer, which the caller wrote, breaks off inside a word."""


class CompileError(VocabularyError):
    """The list could not be compiled for this tokenizer."""


class CompileTimeoutError(CompileError):
    """The compile, with the time it waited for its turn, took longer than its deadline allows."""


class CompileQueueError(CompileError):
    """Too many lists of one owner wait to be compiled, or were compiled lately.

    Attributes:
        retry_after_s: When to try again.
    """

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadEndError(VocabularyError):
    """A search reached a state without allowed tokens, which no list should have."""


class ArtefactError(VocabularyError):
    """A stored artefact is missing, damaged or belongs to another tokenizer."""


class DocumentError(VocabularyError):
    """The text of a file cannot be read. Half a line says why, and what to do about it; the caller says which file."""


class LanguageError(VocabularyError):
    """A language has not what an option of a check needs, ``option``; the message says what to do."""

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option
