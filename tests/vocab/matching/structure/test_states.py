"""JSON answers in listed words: what is written fits its schema, what fits can be written, and budgets are kept."""

import json
import random
from typing import Any

import jsonschema
import pytest

from tests.vocab.matching.structure.worlds import (
    LISTS,
    World,
    dumped,
    parts,
    random_answer,
    random_schema,
    whole_words,
)
from vocab.errors import StructureError
from vocab.matching.structure.states import StructuredStates
from vocab.options import ListOptions

SENTENCES = ListOptions(end="sentence")


def check(world: World, text: str) -> None:
    """What an answer must be: JSON that fits the schema, with strings of the list; read whole, and as a stream."""
    jsonschema.validate(json.loads(text), world.schema)
    assert world.reader.whole_prefix_length(text) == len(text), (world.schema, text)
    followed = world.reader.follow()
    for part in parts(random.Random(len(text)), text):
        assert followed.add(part), (world.schema, text)
    assert followed.num_whole == followed.whole_prefix_length() == len(text)
    assert followed.coverage() == world.reader.coverage(text)


@pytest.mark.parametrize("seed", range(150))
def test_what_random_tokens_write_fits_the_schema_within_any_budget(seed: int) -> None:
    rng = random.Random(seed)
    options = ListOptions(end=rng.choice(["word", "sentence"]), punctuation=rng.choice(["standard", "full", "basic"]))
    world = World.of(random_schema(rng), rng.choice(list(LISTS)), options)
    for spare in (0, 1, 2, 5, 40):
        check(world, world.walk(rng, world.fewest + spare))


@pytest.mark.parametrize("seed", range(150))
def test_what_fits_the_schema_can_be_written(seed: int) -> None:
    rng = random.Random(1000 + seed)
    lang = rng.choice(list(LISTS))
    world = World.of(random_schema(rng), lang)
    for _ in range(3):
        answer = random_answer(rng, world.schema, whole_words(lang))
        text = dumped(answer)
        check(world, text)
        assert world.accepts(text), (world.schema, text)


BOOKS = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["title", "tags"],
    "additionalProperties": False,
}


def test_what_does_not_fit_cannot_be_written() -> None:
    world = World.of(BOOKS)
    texts = [
        '{"title": "zebra", "tags": []}',
        '{"title": "the ze", "tags": []}',
        '{"title": "", "tags": []}',
        '{"title": " the", "tags": []}',
        '{"title": "the\\ndog", "tags": []}',
        '{"title": "\\u0074he", "tags": []}',
        '{"title": "the", "tags": [], "other": 1}',
        '{"title": "the" , "tags": []}',
        '{"tags": [], "title": "the"}',
        '{"title": "the"}',
        '{"title": "the", "tags": ["the" "dog"]}',
        '{"title": "the", "tags": ["the",]}',
        '{"title": "the", "tags": [the]}',
        '{"title": "the\\", "tags": []}',
        '{"title": \'the\', "tags": []}',
        '{"title": 1, "tags": []}',
    ]
    assert not [text for text in texts if world.accepts(text)]


def test_what_a_broken_mask_would_write_is_no_answer_to_its_reader() -> None:
    ones = {"type": "array", "items": {"enum": [1]}}
    faults: list[tuple[Any, str]] = [
        ({"enum": [1]}, "true"),
        ({"enum": [True]}, "1"),
        ({"enum": [{"a": 1}]}, '{"a": 1, "a": 1}'),
        ({**ones, "minItems": 2}, "[1]"),
        ({**ones, "maxItems": 2}, "[1, 1, 1]"),
        (ones, "{}"),
        ({"type": "integer"}, "1.5"),
        ({"type": "integer", "minimum": 2}, "1"),
        ({"type": "number", "exclusiveMaximum": 2}, "2"),
        ({"type": "boolean"}, "null"),
        ({"type": "null"}, "false"),
        ({"type": "object"}, '{"zebra": 1}'),
        ({"type": "object", "additionalProperties": {"type": "null"}}, '{"the": "dog"}'),
        (BOOKS, '{"title": "the"}'),
        (BOOKS, '{"title": "the", "title": "the", "tags": []}'),
        (BOOKS, '{"title": "the", "tags": [], "dog": 1}'),
        (BOOKS, '{"title": 1, "tags": []}'),
        (BOOKS, '{"title": "zebra", "tags": []}'),
        (BOOKS, '{"title": "the", "tags": []'),
    ]
    assert not [(schema, text) for schema, text in faults if World.of(schema).reader.whole_prefix_length(text)]


def test_marks_are_written_as_json_has_them() -> None:
    world = World.of(BOOKS, options=ListOptions(punctuation="full"))
    for text in (
        '{"title": "The \\"dog\\" don\'t.", "tags": ["a", "I"]}',
        '{"title": "the (cat)!", "tags": []}',
        '{"title": "“The dog,” Mr. cat", "tags": ["Well-known..."]}',
    ):
        assert world.accepts(text)
        check(world, text)


def test_no_part_of_a_word_is_whole_before_its_end() -> None:
    world = World.of({"type": "array", "items": {"type": "string"}}, options=ListOptions(punctuation="full"))
    followed = world.reader.follow()
    written = ""
    for part, whole in (
        ('["the do', '["the '),
        ("g", '["the '),
        (' (\\"ca', '["the dog (\\"'),
        ('t\\")"', None),
        ("]", None),
    ):
        assert followed.add(part)
        written += part
        assert written[: followed.num_whole] == (written if whole is None else whole)


def test_one_token_may_close_a_string_and_open_the_next() -> None:
    world = World.of({"type": "array", "items": {"type": "string"}}, options=ListOptions(punctuation="full"))
    states = StructuredStates(world.structured)
    state = states.start
    for piece in ('["', "the", '.", "', "dog", '"]'):
        token = world.facts.token_bytes.index(piece.encode())
        state = states.target(state, token, -1)
        assert state, piece
    assert states.can_stop(state)


@pytest.mark.fault(67)
def test_a_schema_within_itself_ends_within_the_budget() -> None:
    tree = {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "word": {"type": "string"},
                    "below": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["word", "below"],
                "additionalProperties": False,
            }
        },
    }
    world = World.of(tree)
    for seed in range(20):
        check(world, world.walk(random.Random(seed), world.fewest + 150))


def test_lists_within_lists_are_not_nested_without_end() -> None:
    world = World.of({"$ref": "#/$defs/l", "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}})
    depth = max(text.count("[", 0, 100) for text in (world.walk(random.Random(i), 400) for i in range(5)))
    assert depth > 3
    deep = "[" * 70 + "]" * 70
    assert not world.accepts(deep)
    assert world.accepts("[" * 12 + "]" * 12)


def test_any_json_has_words_of_the_list_as_names() -> None:
    world = World.of({"type": "object"})
    assert world.accepts('{"the dog": {"cat": "The dog."}, "a": [1, null, "I"]}')
    assert not world.accepts('{"zebra": 1}')
    for seed in range(20):
        text = world.walk(random.Random(seed), 60)
        assert world.reader.whole_prefix_length(text) == len(text)


def test_what_the_schemas_author_wrote_may_leave_the_list() -> None:
    long = "quaggas, okapis and all the others"
    schema = {"type": "object", "properties": {"zebra": {"enum": ["quagga", "the", long]}}, "required": ["zebra"]}
    world = World.of(schema)
    text = '{"zebra": "quagga"}'
    for written in (text, dumped({"zebra": long})):
        assert world.accepts(written)
        check(world, written)
    assert world.reader.num_fixed_strings(text) == 1
    assert world.reader.coverage(text).num_words == 0


def test_a_long_array_is_as_long_as_the_schema_says() -> None:
    world = World.of({"type": "array", "items": {"enum": [1]}, "minItems": 300, "maxItems": 10**9})
    assert world.fewest > 300
    text = world.walk(random.Random(1), world.fewest)
    assert len(json.loads(text)) == 300


def test_a_string_that_the_list_cannot_fill_is_refused() -> None:
    with pytest.raises(StructureError, match="cannot be written"):
        World.of({"type": "string", "x-vocab": {"end": "sentence"}}, n_words=0)


def test_a_text_ends_with_a_sentence_where_it_is_asked_for() -> None:
    world = World.of({"type": "array", "items": {"type": "string"}, "minItems": 2}, options=SENTENCES)
    assert world.accepts('["The dog.", "A cat!"]')
    assert not world.accepts('["The dog", "A cat!"]')
    for seed in range(10):
        for text in json.loads(world.walk(random.Random(seed), world.fewest + 20)):
            assert text.rstrip(')"”’»').endswith((".", "!", "?", "…"))


def test_words_and_sentences_of_a_string_are_counted() -> None:
    schema = {"type": "string", "x-vocab": {"max_words": 2, "punctuation": "none"}}
    world = World.of(schema)
    assert world.accepts('"the dog"')
    assert not world.accepts('"the dog cat"')
    world = World.of({"type": "string", "x-vocab": {"min_sentences": 2, "max_sentences": 2}})
    assert world.accepts('"The dog. A cat."')
    assert not world.accepts('"The dog."')
    assert not world.accepts('"The dog. A cat. A dog."')


def test_a_string_has_no_marks_that_the_request_has_not() -> None:
    schema = {"type": "array", "items": {"type": "string", "x-vocab": {"punctuation": "basic", "end": "sentence"}}}
    world = World.of(schema, options=ListOptions(punctuation="none"))
    assert world.accepts('["the dog"]')
    assert not world.accepts('["The dog."]')
    check(world, world.walk(random.Random(1), world.fewest + 20))
    world = World.of(schema, options=ListOptions(punctuation="full"))
    check(world, world.walk(random.Random(2), world.fewest + 20))


def test_a_state_is_checked() -> None:
    states = StructuredStates(World.of(BOOKS).structured)
    states.check(())
    states.check(states.start)
    for wrong in (
        (1,),
        (0, 2, 0, 10**6, 0),
        (9, 2, 1, 0, 0, -1),
        (0, 0, 0),
        (0, 3, 0, 0, 1, -(2**60)),
        (1, 2, 1, 0, 0, 2**40),
    ):
        with pytest.raises(ValueError, match="no "):
            states.check(wrong)
