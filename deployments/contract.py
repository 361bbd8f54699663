"""What travels between the deployments of the graph.

The body of a chat request travels as a plain dict of JSON types, checked by the ingress and never trusted to hold
anything but what the ingress put there; the vocabulary travels beside it, by digest. Nothing here knows of HTTP,
of Ray or of the engine.
"""

from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

ChatBody: TypeAlias = dict[str, Any]
"""An OpenAI chat request, validated: JSON types only, no ``vocab_*`` field, always with ``model``, ``messages`` and an
explicit ``max_tokens`` (never ``max_completion_tokens``)."""

Answer: TypeAlias = str | dict[str, Any]
"""One item of an answer: a server-sent event (``"data: …\\n\\n"``) of a stream, or the one dict of a whole answer.
The first item may instead be ``{"error": {"message", "type", "param", "code", "status"}}``."""


class VocabularySpec(BaseModel):
    """The vocabulary as the client asks for it: the ``n_words`` most frequent words of the list ``lang``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lang: str = Field(min_length=1)
    n_words: int = Field(ge=1)


class ResolvedVocabulary(BaseModel):
    """The vocabulary as the replica uses it: an artefact that exists.

    Attributes:
        digest: Names the artefact: list, options, tokenizer and format.
        lang: The list, as asked for.
        n_words: As asked for, also where the list is shorter.
        fewest_tokens: How many tokens the shortest text needs, end-of-text token included: a smaller ``max_tokens``
            cannot be served.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str = Field(min_length=1)
    lang: str
    n_words: int = Field(ge=1)
    fewest_tokens: int = Field(ge=1)
