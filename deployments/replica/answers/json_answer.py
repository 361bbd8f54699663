"""The constraint of an answer in JSON whose strings are texts of a list."""

from dataclasses import replace

from deployments.errors import EngineError
from deployments.protocol.generation.structure import SCHEMA_FIELD
from deployments.replica.engine.node_lists import NodeList
from vocab.errors import StructureError
from vocab.matching.engine_cache import EngineCache
from vocab.matching.structure.answers import AnswerReader
from vocab.matching.structure.schema import PreparedSchema


def json_constraint(
    states: EngineCache, listed: NodeList, schema: PreparedSchema, *, max_tokens: int, min_tokens: int = 0
) -> tuple[AnswerReader, str]:
    """Return the reader of a schema's answers, and their grammar for the engine.

    Raises:
        EngineError: With status 400: no answer can be written in the list, or none fits into ``max_tokens``.
    """
    reference = replace(listed.reference(max_tokens, schema), min_tokens=min_tokens)
    try:
        reader = listed.answer_reader(schema)
        answers = states.for_text(reference)
    except StructureError as error:
        raise EngineError(
            400, f"'{SCHEMA_FIELD}' cannot be written in this word list: {error}.", param=SCHEMA_FIELD
        ) from None
    fewest = answers.tokens_to_end(answers.start)
    if fewest is None or fewest > max_tokens:
        raise EngineError(
            400,
            f"'max_tokens' must be at least {fewest}: an answer of this schema in this word list needs so many tokens.",
            param="max_tokens",
        )
    return reader, reference.to_ebnf()
