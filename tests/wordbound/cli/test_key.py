"""``wordbound key`` makes keys that the service's settings take, and knows them again."""

import json

import yaml

from deployments.settings.service import Settings
from tests.deployments.front import KEY
from tests.wordbound.cli.conftest import Run
from wordbound.cli import DONE, NOT_AS_ASKED


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
