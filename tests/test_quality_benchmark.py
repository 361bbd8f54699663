"""The quality benchmark goes on where it ended, and its figures are those of the texts."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.prose.faults import faults_per_100_words, is_stray
from benchmarks.prose.free_model import bits_key
from benchmarks.prose.methods import METHODS, find_method
from benchmarks.prose.page import FIRST_MARK, LAST_MARK, figures, markdown, write_page
from benchmarks.prose.prompts import languages, load_prompts
from benchmarks.prose.records import Cell, Record, Records
from benchmarks.prose.rows import (
    Judged,
    bits_per_char,
    ends_sentence,
    log_mass_per_word,
    low_steps,
    make_row,
    seconds_at_8,
    tables,
)
from benchmarks.prose.served import missing
from benchmarks.prose.steps import steps_key
from benchmarks.quality import with_template
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import SERVED, chat_body

GREEDY, FREE = find_method("greedy")[0], find_method("free-greedy")[0]
CELL = Cell("m", "en", 1000, 60, GREEDY)


def test_there_are_forty_different_prompts_in_each_language() -> None:
    assert languages() == ["de", "en", "es", "tr"]
    for lang in languages():
        prompts = load_prompts(lang, 99)
        assert len(set(prompts)) == len(prompts) == 40
        assert load_prompts(lang, 3) == prompts[:3]


def test_methods_have_names_of_their_own_and_ask_for_what_there_is() -> None:
    assert len({method.name for method in METHODS}) == len(METHODS)
    assert find_method(None) == list(METHODS)
    with pytest.raises(KeyError):
        find_method("greedy,slow")
    for method in METHODS:
        if method.kind == "service":
            fields = chat_body(**method.fields, vocab={"lang": "en", "n_words": 10, **method.vocab})
            assert ChatRequestReader(SERVED).read(fields).vocabulary is not None


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    records = Records(path)
    records.add(_answer(CELL, "one"))
    with path.open("a") as file:
        file.write('{"kind": "answer", "mod')
    again = Records(path)
    assert missing(again, "answer", CELL, ["one", "two"]) == [1]
    again.add(_answer(CELL, "two", text="a\u2028line"))
    last = Records(path)
    assert missing(last, "answer", CELL, ["one", "two"]) == []
    assert [record["text"] for record in last.of("answer", CELL)] == ["A dog. The end.", "a\u2028line"]


@pytest.mark.parametrize(
    "other",
    [
        CELL._replace(n_words=500),
        CELL._replace(num_tokens=30),
        CELL._replace(lang="es"),
        CELL._replace(method=GREEDY._replace(fields={"temperature": 0.1})),
    ],
)
def test_an_answer_counts_for_what_was_asked_only(tmp_path: Path, other: Cell) -> None:
    records = Records(tmp_path / "run.jsonl")
    records.add(_answer(CELL, "one"))
    assert missing(records, "answer", other, ["one"]) == [0]
    assert missing(records, "alone", CELL, ["one"]) == [0]


def test_bits_are_shared_out_over_all_characters() -> None:
    answers = [_answer(CELL, "one", text="12345"), _answer(CELL, "two", text="1234567890", is_ended=False)]
    bits = {bits_key(answers[0]): 10.0, bits_key(answers[1]): 5.0}
    assert bits_per_char(answers, bits) == 1.0
    assert bits_per_char([{**answers[0], "is_ended": False}], bits) is None


@pytest.mark.parametrize(
    ("text", "is_end"),
    [("The end.", True), ('He said "go!" ', True), ("What?\n", True), ("And then", False), ("First:", False),
     ("", False)],
)  # fmt: skip
def test_a_finished_text_ends_with_a_sentence(text: str, is_end: bool) -> None:
    assert ends_sentence(text) is is_end


def test_seconds_of_eight_are_those_of_full_runs() -> None:
    full = [_answer(CELL, str(i), run="full", started=float(i), ended=i + 9.0) for i in range(8)]
    rest = [_answer(CELL, "8", run="rest", started=0.0, ended=900.0)]
    assert seconds_at_8(full + rest) == 16 / 8
    assert seconds_at_8(rest) is None


def test_a_row_says_what_its_texts_are_worth() -> None:
    looping = _answer(CELL, "one", text="the dog is here the dog is here", num_generated_tokens=40)
    unlisted = _answer(CELL, "two", text="A zyzzyva.", vocab={"log_mass_per_word": 0.5})
    bits = {bits_key(looping): 31.0, bits_key(unlisted): 10.0}
    alone = [{**looping, "kind": "alone", "started": 1.0, "ended": 3.0}]
    row = make_row(CELL, [looping, unlisted], alone, Judged(bits, {}, {}))
    assert row.bits_per_char == 1.0
    assert row.log_mass_per_word is None
    assert row.repeated_4 == pytest.approx(1 / 5 / 2)
    assert row.distinct_2 == pytest.approx((4 / 7 + 1) / 2)
    assert row.finished == 0.5
    assert row.num_unlisted == 1
    assert row.tokens_per_token == 50 / 20
    assert (row.seconds_alone, row.seconds_at_8) == (2.0, None)


def test_the_mass_of_long_texts_counts_more() -> None:
    answers = [
        _answer(CELL, "one", vocab={"log_mass_per_word": 0.5, "num_words": 9}),
        _answer(CELL, "two", vocab={"log_mass_per_word": 5.5, "num_words": 1}),
    ]
    assert log_mass_per_word(answers) == 1.0
    assert log_mass_per_word([*answers, _answer(CELL, "three", vocab={"log_mass_per_word": None})]) is None


def test_low_steps_are_counted_over_all_tokens() -> None:
    answers = [_answer(CELL, "one", text="A dog."), _answer(CELL, "two", text="A cat sat.")]
    steps = {steps_key(answers[0]): (1, 3), steps_key(answers[1]): (1, 5)}
    assert low_steps(answers, steps) == 2 / 8
    assert low_steps([*answers, _answer(CELL, "three")], steps) is None


@pytest.mark.parametrize(
    ("text", "lang", "is_out"),
    [
        ("I saw a dog.", "en", False),
        ("It was a small, l look.", "en", True),
        ("It was , a dog.", "en", True),
        ('He said "yes.', "en", True),
        ("Agua y pan.", "es", False),
        ("Agua b pan.", "es", True),
        ("Ein Hund a.", "de", True),
    ],
)
def test_a_stray_mark_or_letter_is_seen(text: str, lang: str, is_out: bool) -> None:
    assert is_stray(text, lang) is is_out


def test_faults_of_grammar_are_counted_by_words() -> None:
    pytest.importorskip("harper")
    assert faults_per_100_words(["He has an dog.", "The dog runs fast."], "en") == 100 / 8
    assert faults_per_100_words(["Er hat ein Hund."], "de") is None


def test_free_texts_stand_beside_those_of_each_list(tmp_path: Path) -> None:
    records = Records(tmp_path / "run.jsonl")
    for cell in (CELL, CELL._replace(n_words=500), CELL._replace(n_words=None, method=FREE)):
        records.add(_answer(cell, "one"))
    found = tables(records, 60)
    assert list(found) == [("m", "en", 500), ("m", "en", 1000)]
    assert [[row.cell.method.name for row in rows] for rows in found.values()] == [["free-greedy", "greedy"]] * 2
    assert [row.is_constrained for row in found["m", "en", 500]] == [False, True]
    assert tables(records, 30) == {}


def test_the_page_keeps_what_people_wrote(tmp_path: Path) -> None:
    records = Records(tmp_path / "run.jsonl")
    records.add({"kind": "run", "run": "r", "date": "2026-01-02T03:04", "versions": {"python": "3.11", "x": "not here"},
                 "hardware": {"cpu": "some", "cores": 2, "memory_gib": 8}})  # fmt: skip
    records.add(_answer(CELL, "Tell me", text="A dog.\nIt *is* here."))
    found = tables(records, 60)
    page = tmp_path / "quality.md"
    for _ in range(2):
        write_page(page, figures(found, dict.fromkeys(found, "quality.svg"), records.of("run")))
    text = page.read_text()
    assert text.count(FIRST_MARK) == text.count(LAST_MARK) == text.count("| greedy | 1 | – |") == 1
    assert "- `greedy` A dog. It \\*is\\* here." in text
    assert "2026-01-02 on some, 2 cores" in text
    assert "python 3.11." in text
    page.write_text(text.replace("# Quality", "# My quality") + "My word.\n")
    write_page(page, markdown(found["m", "en", 1000]))
    assert page.read_text().startswith("# My quality")
    assert page.read_text().endswith("My word.\n")


def test_a_model_gets_a_template_and_keeps_its_name_and_its_own_files(tmp_path: Path) -> None:
    model, template = tmp_path / "base", tmp_path / "chat.jinja"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "chat_template.jinja").write_text("its own")
    template.write_text("{{ messages }}")
    with with_template(str(model), template) as folder:
        assert Path(folder).name == "base"
        assert (Path(folder) / "config.json").read_text() == "{}"
        assert (Path(folder) / "chat_template.jinja").read_text() == "{{ messages }}"
    assert (model / "chat_template.jinja").read_text() == "its own"
    with with_template(str(model), None) as folder:
        assert Path(folder) == model


def test_labels_of_points_that_are_near_do_not_meet() -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.prose.picture import spread

    assert spread([(1.0, 1.0), (1.1, 1.0), (4.0, 1.0), (1.0, 0.0)]) == [1.0, pytest.approx(0.981), 1.0, 0.0]
    assert spread([]) == []


def test_the_picture_has_a_point_for_each_method_with_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.prose.picture import plot_quality

    answer = _answer(CELL, "one")
    row = make_row(CELL, [answer], [answer], Judged({bits_key(answer): 9.0}, {}, {}))
    plot_quality(
        [row, make_row(CELL._replace(method=FREE), [answer], [], Judged({}, {}, {}))], tmp_path / "quality.svg"
    )
    drawn = (tmp_path / "quality.svg").read_text()
    assert drawn.count(">greedy<") == 2
    assert ">free-greedy<" not in drawn


def _answer(cell: Cell, prompt: str, **changes: Any) -> Record:
    return {
        "kind": "answer",
        "run": "r",
        **cell.key,
        "prompt": prompt,
        "number": 0,
        "text": "A dog. The end.",
        "is_ended": True,
        "num_answer_tokens": 10,
        "num_generated_tokens": 10,
        "vocab": None,
        "started": 0.0,
        "ended": 1.0,
        **changes,
    }
