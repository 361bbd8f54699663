"""``wordbound key`` makes keys that the service's settings take, and knows them again."""

import json

import pytest
import yaml

from deployments.settings.service import Settings
from tests.deployments.front import KEY
from tests.wordbound.cli.conftest import Run, assert_refused
from wordbound.cli import DONE, NOT_AS_ASKED, WRONG_INPUT


def test_what_it_writes_is_yaml_that_the_settings_take(run: Run) -> None:
    done = run("key", "alice")
    assert done.exit_code == DONE
    settings = Settings(model_id="m", secret_token=KEY, **yaml.safe_load(done.stdout))
    made = done.stderr.splitlines()[1]
    assert made not in done.stdout
    digest = settings.key_digests["alice"]
    assert run("key", "--verify", digest, text=f"{made}\n").exit_code == DONE
    other = run("key", "--verify", digest, text="another\n")
    assert (other.exit_code, other.stderr) == (NOT_AS_ASKED, "this is the digest of another key\n")


def test_no_two_keys_are_alike(run: Run) -> None:
    made = [json.loads(run("key", "alice", "--json").stdout) for _ in range(2)]
    assert {one["name"] for one in made} == {"alice"}
    assert made[0]["key"] != made[1]["key"]
    assert len(made[0]["key"]) == 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say whose key it is: wordbound key alice"),
        (("Alice",), "a name has 1 to 64 small letters"),
        (("default",), "SECRET_TOKEN"),
        (("alice", "--verify", "0" * 64), "give either NAME"),
        (("--verify", "0"), "64 hexadecimal digits"),
        (("--verify", "0" * 64), "no key on standard input"),
    ],
)
def test_wrong_use_is_told_in_one_line(arguments: tuple[str, ...], message: str, run: Run) -> None:
    assert_refused(run("key", *arguments), WRONG_INPUT, message)
