"""The program ``wordbound`` itself, as a child process, against the running application."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, MODEL, Service

pytestmark = pytest.mark.e2e


def run(service: Service, *arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with what somebody types."""
    return subprocess.run(
        [sys.executable, "-m", "wordbound", *map(str, arguments)],
        env=os.environ | {"WORDBOUND_URL": service.url, "WORDBOUND_API_KEY": KEY},
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_text_is_written_and_checked(service: Service, tmp_path: Path) -> None:
    story, new = tmp_path / "story.txt", tmp_path / "new.txt"
    asked = ("--lang", "en", "--words", "500", "--names", "Anna", "--max-tokens", "60", "--must-use", "garden")
    files = ("--out", story, "--new-words-file", new)
    done = run(service, "write", "Tell me about Anna's garden.", *asked, "--new-words", "3000:4:3", *files)
    assert done.returncode == 0, done.stderr
    added = ("Anna", "garden", *new.read_text().split())
    assert_only_listed_words(story.read_text().strip(), "en", 500, extra_words=added, end="sentence")
    assert "garden" in story.read_text()
    assert len(added) <= 5
    assert " different, the rarest has rank " in done.stderr
    (tmp_path / "names.txt").write_text("Anna\ngarden\n")
    listed = ("--lang", "en", "--words", "500", "--extra-words", tmp_path / "names.txt")
    checked = run(service, "check", story, *listed, *(("--new-words", new) if new.read_text() else ()))
    assert checked.returncode == 0, checked.stdout


def test_a_better_text_tells_as_json_what_it_is_made_of(service: Service) -> None:
    asked = ("--lang", "en", "--words", "500", "--max-tokens", "40", "--quality", "better", "--json")
    done = run(service, "write", "Describe the sea.", *asked)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert_only_listed_words(answer["text"], "en", 500, end="sentence")
    assert answer["vocab"]["generated_tokens"] > answer["vocab"]["num_words"]


def test_a_script_talks_and_changes_the_number_of_words(service: Service) -> None:
    said = "Who are you?\n/words 100\nAnd where do you live?\n/new\nHello.\n/quit\n"
    done = run(service, "chat", "--lang", "en", "--words", "500", "--max-tokens", "30", text=said)
    assert done.returncode == 0, done.stderr
    summaries = [line for line in done.stderr.splitlines() if " different" in line]
    assert len(summaries) == 3
    ranks = [int(line.rpartition("rank ")[2].replace(",", "")) for line in summaries]
    assert max(ranks[1:]) <= 100


def test_a_file_of_requests_is_answered_line_by_line(service: Service, tmp_path: Path) -> None:
    body = {"model": MODEL, "max_tokens": 20, "vocab": {"lang": "en", "n_words": 300}}
    asked = [{**body, "messages": [{"role": "user", "content": question}]} for question in ("Who?", "Where?")]
    asked.append({**asked[0], "vocab": {"lang": "xx"}})
    lines = [
        {"custom_id": f"row-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        for number, body in enumerate(asked)
    ]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run(service, "batch", source, target)
    assert done.returncode == 1, done.stderr
    assert done.stderr.endswith(f"3 lines: 2 answered, 1 failed, in {tmp_path / 'out.errors.jsonl'}\n")
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert [answer["custom_id"] for answer in answers] == ["row-0", "row-1"]
    for answer in answers:
        assert_only_listed_words(answer["response"]["body"]["choices"][0]["message"]["content"], "en", 300)
    (failed,) = (tmp_path / "out.errors.jsonl").read_text().splitlines()
    assert json.loads(failed)["custom_id"] == "row-2"


def test_a_wrong_key_and_a_wrong_list_have_statuses_of_their_own(service: Service) -> None:
    wrong = run(service, "write", "Go", "--lang", "xx", "--words", "5")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)
    done = run(service, "doctor", "--port", str(int(service.url.rpartition(":")[2])))
    assert f"the service at {service.url} serves {MODEL}, and takes the key" in done.stdout
