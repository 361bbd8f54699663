import pytest
import xgrammar
from hypothesis import given
from hypothesis import strategies as st

from tests.choices import choices
from tests.vocab.toys import tokens_of
from vocab.matching.controls import Controls, NewWords, RequiredWord
from vocab.matching.reference import (
    GrammarReference,
    is_ours,
    parse_compiled_grammar,
    parse_lark,
    write_client_grammar,
    write_compiled_grammar,
)
from vocab.matching.structure.schema import prepare
from vocab.options import ListOptions

REFERENCE = GrammarReference("0123456789abcdef" * 4, ListOptions(), 1000, 64)
NUMBERS = st.integers(1, 2**63 - 1)
SHORT = {"type": "string", "x-vocab": {"max_words": 3, "end": "word"}}
CONTROLS = st.builds(
    Controls,
    new_words=st.none() | st.builds(NewWords, n_words=NUMBERS, spacing=NUMBERS, max_words=NUMBERS),
    must_use=st.lists(st.builds(RequiredWord, ranks=st.lists(NUMBERS).map(tuple), count=NUMBERS)).map(tuple),
    max_sentence_words=NUMBERS,
    num_tokens=NUMBERS,
)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(
    st.builds(
        GrammarReference,
        digest=DIGESTS,
        n_words=NUMBERS,
        max_tokens=st.none() | NUMBERS,
        options=choices().map(lambda choice: ListOptions(**choice)),
        changes=st.none() | DIGESTS,
        start=st.none() | st.lists(st.integers(-(2**31), 2**62), min_size=1, max_size=64).map(tuple),
        no_repeat=st.none() | st.integers(1, 64),
        seen=st.lists(st.integers(0, 2**31 - 1), max_size=512).map(tuple),
        min_tokens=st.integers(0, 2**31),
        place=st.none() | st.integers(0, 10**6),
        controls=st.none() | CONTROLS,
        schema=st.none() | st.text().map(lambda name: prepare({"type": "object", "properties": {name: SHORT}})),
    )
)
def test_a_reference_survives_the_journey(reference: GrammarReference) -> None:
    assert GrammarReference.parse(reference.to_ebnf()) == reference


@pytest.mark.parametrize(
    "reference",
    [
        REFERENCE.to_ebnf(),
        GrammarReference("a" * 64, ListOptions(), 1, None, "b" * 64, (-1, 7), 4, (1, 2), 3, 12).to_ebnf(),
        write_compiled_grammar("a" * 64),
    ],
)
def test_an_engine_that_does_not_know_it_can_only_stop(reference: str) -> None:
    info = xgrammar.TokenizerInfo(["<stop>", "a", "b", "root", '"'], stop_token_ids=[0])
    assert is_ours(reference)
    grammar = xgrammar.GrammarCompiler(info).compile_grammar(reference)
    row = xgrammar.allocate_token_bitmask(1, 5)
    xgrammar.GrammarMatcher(grammar).fill_next_token_bitmask(row)
    assert tokens_of(row.numpy()[0]) == {0}


@pytest.mark.parametrize(
    "grammar",
    ['root ::= "a"', "", 'root ::= ""\n# wordbound\n', REFERENCE.to_ebnf() + 'root ::= "a"\n'],
)
def test_other_grammars_are_no_references(grammar: str) -> None:
    assert GrammarReference.parse(grammar) is None


@pytest.mark.parametrize(
    "grammar",
    [
        REFERENCE.to_ebnf().replace("wordbound/8", "wordbound/9"),
        f'root ::= ""\n# wordbound/1 list={"ab" * 32} n=5 max=-\n',
    ],
)
def test_a_reference_of_another_version_is_an_error(grammar: str) -> None:
    with pytest.raises(ValueError, match=r"version \d, but this engine's plugin knows 8"):
        GrammarReference.parse(grammar)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("", "Expecting value"),
        ("[]", "its fields: .*dictionary"),
        ("{}", "digest: Field required"),
        ('{"digest": "0", "options": {}, "n_words": 1, "seen": [-1]}', "seen.0: .*greater than or equal to 0"),
        ('{"digest": "0", "options": {}, "n_words": 9223372036854775808}', ".* beyond 64 bits"),
        ("[" * 100_000, ".*recursion"),
    ],
)
def test_what_this_package_did_not_write_is_an_error(fields: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"no wordbound reference: {says}"):
        GrammarReference.parse(f'root ::= ""\n# wordbound/8 {fields}\n')


@pytest.mark.parametrize("grammar", ['root ::= "a"\n', REFERENCE.to_ebnf(), write_client_grammar('start: "a"')])
def test_no_grammar_of_a_client_is_taken_for_one_of_ours(grammar: str) -> None:
    sent = write_client_grammar(grammar)
    assert GrammarReference.parse(sent) is None
    assert parse_lark(sent) is None
    assert not is_ours(sent)
    assert sent.endswith(grammar)


@pytest.mark.parametrize("grammar", ['start: "a"', "start: /a\\\\n/\nA: 'é\"'", "# wordbound\nstart: A"])
def test_a_grammar_in_lark_travels_in_ebnf(grammar: str) -> None:
    sent = write_client_grammar(grammar)
    assert parse_lark(sent) == grammar
    assert sent.startswith('root ::= ""\n')
    assert sent.count("\n") == 2
    assert GrammarReference.parse(sent) is None
    assert not is_ours(sent)


def test_a_compiled_grammar_is_named_by_a_digest_alone_and_by_no_client() -> None:
    sent = write_compiled_grammar("0" * 64)
    assert (parse_compiled_grammar(sent), GrammarReference.parse(sent)) == ("0" * 64, None)
    for other in (write_compiled_grammar("../lists/" + "0" * 55), sent + 'root ::= "a"\n', write_client_grammar(sent)):
        assert parse_compiled_grammar(other) is None
