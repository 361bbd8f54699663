"""Every error of the library, as one tree.

VocabularyError                 the base; catch this to catch all of ours
├── WordListError               the list asked for cannot be used: the caller's mistake
│   ├── UnknownLanguageError    no list of that name; lists the known ones
│   ├── UnsupportedScriptError  a language written without spaces
│   ├── EmptyWordListError      nothing is left of the list
│   ├── NoLemmasError           the lemmas of the language are not known; names those with lemmas
│   └── InvalidWordListError    a line of a list file, or an entry of a client's list, cannot be a word; names it
├── OptionsError                options that contradict one another: the caller's mistake
├── TokenBudgetError            no text of the list fits into that many tokens: the caller's mistake
├── CompileError                the list could not be compiled for this tokenizer: our fault
│   └── CompileTimeoutError     it took longer than the deadline allows
├── DeadEndError                a search came to where no token may come: our fault
└── ArtefactError               a stored artefact is missing, damaged or for another tokenizer: our fault
"""


class VocabularyError(Exception):
    """Base of the library's errors; ``str()`` of each says what to change."""


class WordListError(VocabularyError):
    """The list asked for cannot be used."""


class UnknownLanguageError(WordListError):
    """There is no list of that name."""


class UnsupportedScriptError(WordListError):
    """The language is written without spaces, which is not supported yet."""


class EmptyWordListError(WordListError):
    """Nothing is left of the list."""


class NoLemmasError(WordListError):
    """The lemmas of the language are not known."""


class InvalidWordListError(WordListError):
    """A line of a list file, or an entry of a client's list, cannot be a word."""


class OptionsError(VocabularyError):
    """Options contradict one another, or a word is both added and left out."""


class TokenBudgetError(VocabularyError):
    """No text of the list fits into the number of tokens asked for."""


class CompileError(VocabularyError):
    """The list could not be compiled for this tokenizer."""


class CompileTimeoutError(CompileError):
    """The compile took longer than its deadline allows."""


class DeadEndError(VocabularyError):
    """A search came to where no token may come, which no list leads to."""


class ArtefactError(VocabularyError):
    """A stored artefact is missing, damaged or belongs to another tokenizer."""
