"""Prompts, requests and a user's own texts, and what is said of files that are none of these."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality.prompts import load_prompts
from wordbound.train import TrainConfig, TrainError, main
from wordbound.train.texts import REJECTED, read_own_texts, read_prompts, write_requests


class Words:
    """A tokenizer of words."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[str]]:
        return {"input_ids": text.split()}


def config(**fields: Any) -> TrainConfig:
    return TrainConfig(model="m", **fields)


def test_built_in_prompts_are_many_and_none_is_judged_with() -> None:
    with pytest.raises(TrainError, match=r"built-in prompts in .*en") as caught:
        read_prompts(config(lang="fi"))
    languages = str(caught.value).partition(" in ")[2].partition(";")[0].split(", ")
    for lang in languages:
        prompts = read_prompts(config(lang=lang))
        assert len(set(prompts)) == len(prompts) >= 2000
        assert not set(prompts) & set(load_prompts(lang, 1000))
        assert prompts == read_prompts(config(lang=lang)) != read_prompts(config(lang=lang, seed=1))


def test_requests_take_the_sizes_of_list_in_turn_and_are_written_once(tmp_path: Path) -> None:
    asked = config(word_counts=(300, 1000), num_texts=5, teacher={"best_of": 4, "vocab": {"end": "word"}})
    path = write_requests(asked, tmp_path)
    bodies = [json.loads(line)["body"] for line in path.read_text().splitlines()]
    assert [body["vocab"] for body in bodies] == [
        {"lang": "en", "n_words": size, "end": "word"} for size in (300, 1000, 300, 1000, 300)
    ]
    assert all(body["best_of"] == 4 and body["max_tokens"] in asked.max_tokens for body in bodies)
    before = path.read_bytes()
    path.write_bytes(before + b"\n")
    assert write_requests(asked, tmp_path).read_bytes() == before + b"\n"


def test_a_file_without_prompts_or_a_huge_one_says_what_to_change(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    for content, said in (
        (None, "No such file"),
        (b" \n\n", "there is no prompt in it; write one a line"),
        (b"a\n\xff", r"is no text in UTF-8 \(byte 2\)"),
        (b"a\0b", r"is binary data \(a NUL at character 1\)"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(TrainError, match=said) as caught:
            read_prompts(config(prompts=path))
        assert str(path) in str(caught.value)
    with path.open("wb") as file:
        file.truncate(10_000_000_000)
    for own in (config(texts=path), config(prompts=path)):
        with pytest.raises(TrainError, match=r"has 9,536 MB, and an adapter learns from 256 MB at most"):
            read_prompts(own) if own.prompts else read_own_texts(own, Words(), tmp_path)


def test_each_round_takes_the_next_prompts(tmp_path: Path) -> None:
    asked = config(num_texts=5, rounds=2)
    rounds = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = write_requests(asked, folder, number).read_text().splitlines()
        rounds.append([json.loads(line)["body"]["messages"][0]["content"] for line in lines])
    assert [*rounds[0], *rounds[1]] == read_prompts(asked)[:10]
    with pytest.raises(ValueError, match="rounds write texts, and texts are given"):
        config(rounds=2, texts=tmp_path / "texts.txt")


def test_texts_of_ones_own_are_for_the_smallest_list_that_allows_them(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    texts = ["I have a good time.", "The dog saw a cat.", "The xylophone was there."]
    path.write_text("\n".join(json.dumps({"prompt": "Go on.", "text": text}) for text in texts))
    found = read_own_texts(config(texts=path, word_counts=(300, 5000)), Words(), tmp_path)
    assert [(text.text, text.n_words, text.num_tokens) for text in found] == [(texts[0], 300, 5), (texts[1], 5000, 5)]
    [rejected] = [json.loads(line) for line in (tmp_path / REJECTED).read_text().splitlines()]
    assert rejected == {"prompt": "Go on.", "text": texts[2], "unlisted": ["xylophone"]}
    # Plain text is read by paragraphs.
    path = tmp_path / "mine.txt"
    path.write_text("I have a\ngood time.\n\nThe dog saw a cat.\n")
    found = read_own_texts(config(texts=path, word_counts=(5000,)), Words(), tmp_path)
    assert [text.text for text in found] == ["I have a good time.", "The dog saw a cat."]


@pytest.mark.fault(66)
def test_texts_that_cannot_be_learned_from_say_why(tmp_path: Path) -> None:
    for name, content, said in (
        ("t.jsonl", '{"prompt": "a"}', 'line 1: expected {"prompt": "…", "text": "…"}'),
        ("t.txt", "xylophone", "none of its 1 texts keeps to the 300 words"),
    ):
        (path := tmp_path / name).write_text(content)
        with pytest.raises(TrainError) as caught:
            read_own_texts(config(texts=path, word_counts=(300,)), Words(), tmp_path)
        assert said in str(caught.value)


def test_a_model_or_a_list_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no-model"
    assert main([str(tmp_path / "out"), "--model", str(missing)]) == 2
    assert capsys.readouterr().err.startswith(f"wordbound train: model='{missing}': cannot be read: ")
    path = tmp_path / "mine.txt"
    path.write_text("A dog.")
    with pytest.raises(TrainError, match="lang='xx'"):
        read_own_texts(config(texts=path, lang="xx"), Words(), tmp_path)


def test_a_run_with_other_settings_needs_another_folder(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    config().save(path)
    config().save(path)
    with pytest.raises(TrainError, match="another num_texts"):
        config(num_texts=7).save(path)


def test_a_bad_setting_ends_the_command_with_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.yaml"
    for content, said in (
        ("modle: a", "modle: Extra inputs"),
        ("- a", "expected keys and values"),
        ("training: {rank: x}", "training.rank"),
    ):
        path.write_text(content)
        assert main([str(tmp_path / "out"), "--config", str(path), "--model", "m"]) == 2
        result = capsys.readouterr().err
        assert (said in result, result.count("\n")) == (True, 1), result
