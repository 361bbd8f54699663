import pytest

from vocab.compiler.jobs import (
    ChangeList,
    Compiled,
    CompileList,
    Job,
    MeasureTexts,
    Reply,
    read_job,
    read_reply,
    write_job,
    write_reply,
)
from vocab.errors import CompileError, InvalidWordListError, VocabularyError
from vocab.options import ListOptions


@pytest.mark.parametrize(
    "job",
    [
        CompileList("es"),
        CompileList("es", unit="lemma", is_whole=False),
        CompileList(None, ("niño", 'say "so"', "a\nb", "\ud800")),
        ChangeList("1" * 64, ("Ana",), ("niño",)),
        MeasureTexts("1" * 64, None, ListOptions(), 7),
        MeasureTexts("1" * 64, "2" * 64, ListOptions(case="listed", numbers=True, end="sentence"), 10**12),
    ],
)
def test_a_job_comes_back_as_it_was(job: Job) -> None:
    line = write_job(job)
    assert line.count(b"\n") == 1
    assert read_job(line) == job


def test_a_reply_comes_back_as_it_was() -> None:
    compiled = Compiled("1" * 64, 3, 3, 3, 1, ("niño",), was_stored=True, seconds=0.5)
    for reply in (Reply(compiled, resident_bytes=7), Reply(fewest_tokens=3)):
        assert read_reply(write_reply(reply)) == reply
    assert read_reply(write_reply(Reply())) == Reply()


@pytest.mark.parametrize("error", [InvalidWordListError("line 3"), CompileError("too many")])
def test_an_error_keeps_its_kind(error: VocabularyError) -> None:
    came = read_reply(write_reply(Reply(error=error))).error
    assert (type(came), str(came)) == (type(error), str(error))


@pytest.mark.parametrize("name", ["KeyError", "Final", "__doc__", "nothing"])
def test_an_error_of_another_kind_is_ours(name: str) -> None:
    line = write_reply(Reply(error=CompileError("why"))).replace(b"CompileError", name.encode())
    came = read_reply(line).error
    assert (type(came), str(came)) == (CompileError, "why")


@pytest.mark.parametrize("line", [b"", b"nonsense\n", b"[]\n", b"{}\n", b'{"compiled": {"digest": 1}}\n'])
def test_what_is_no_reply_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"reply|value"):
        read_reply(line)
