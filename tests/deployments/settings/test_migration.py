"""The ``.env`` file of a transformers server: what each of its names does, or what is said of it."""

import re
from pathlib import Path
from typing import Any

import pytest

from deployments.settings.service import Settings, SettingsError
from deployments.settings.sources import ENVIRONMENT, OLD_NAMES

TABLE = Path(__file__).parents[3] / "docs" / "migration.md"

EFFECTS: list[tuple[str, str, dict[str, Any]]] = [
    ("SECRET_TOKEN", "hunter2", {"secret_token": "hunter2"}),
    ("LLM_SERVING_API_KEY", "hunter2", {"secret_token": "hunter2"}),
    ("MODEL_NAME", "some/model", {"model_name": "some/model", "model_id": "some/model"}),
    ("LLM_SERVING_MODEL_PATH", "/models/tiny", {"model_name": "/models/tiny", "model_id": "tiny"}),
    ("TRUST_REMOTE_CODE", "True", {"trust_remote_code": True}),
    ("TORCH_DTYPE", "bf16", {"torch_dtype": "bfloat16"}),
    ("TORCH_DTYPE", "FP16", {"torch_dtype": "float16"}),
    ("TORCH_DTYPE", "fp32", {"torch_dtype": "float32"}),
    ("TORCH_DTYPE", "torch.bfloat16", {"torch_dtype": "bfloat16"}),
    ("TORCH_DTYPE", "auto", {}),
    ("LLM_SERVING_DEVICE", "cpu", {"placement_bundles": [{"CPU": 1.0}]}),
    ("LLM_SERVING_DEVICE", "cuda:0", {}),
    ("DEVICE_MAP", "auto", {}),
    ("ATTN_IMPLEMENTATION", "flash_attention_2", {}),
    ("STATIC_KV_CACHE", "true", {}),
    ("TOKENIZER_PADDING_SIDE", "left", {}),
    ("PAD_TO_MULTIPLE_OF", "8", {}),
    ("MAX_INPUT_TOKENS", "77", {"limits": {"max_input_tokens": 77}}),
    ("ALLOWED_MAX_NEW_TOKENS", "256", {"limits": {"max_new_tokens": 256}}),
    ("ALLOWED_MAX_NEW_TOKENS", "64, 256", {"limits": {"max_new_tokens": 256, "allowed_new_tokens": [64, 256]}}),
    ("ALLOWED_MAX_NEW_TOKENS", "[256, 64]", {"limits": {"max_new_tokens": 256, "allowed_new_tokens": [64, 256]}}),
    ("ALLOWED_MAX_NEW_TOKENS", "{64, 256}", {"limits": {"max_new_tokens": 256, "allowed_new_tokens": [64, 256]}}),
    ("INPUT_OVERFLOW", "truncate", {"input_overflow": "truncate"}),
    ("PREBUILD_PREFIX", "500", {"prebuild_prefix": 500}),
    ("PREBUILD_PREFIX", "true", {}),
    ("PREBUILD_PREFIX", "False", {}),
    ("PREBUILD_LANGS", "en, es", {"prebuild_langs": ["en", "es"]}),
    ("PREBUILD_WORD_COUNTS", "5000,1000", {"prebuild_word_counts": [1000, 5000]}),
    ("BATCH_JOB_PIPELINE_SIZE", "16", {"batch": {"lines_in_flight": 16}}),
    ("BATCH_JOB_TEMP_DIR", "/jobs", {"batch": {"state_dir": "/jobs"}}),
    ("LOG_LEVEL", "warning", {"log_level": "WARNING"}),
    ("LLM_SERVING_LOG_LEVEL", "critical", {"log_level": "ERROR"}),
    # Short names of this service.
    ("SECRETS_DIR", "/", {"secrets_dir": "/"}),
    ("HF_TOKEN", "hf_x", {"hf_token": "**********"}),
    ("WORDLIST_DIR", "/lists", {"wordlist_dir": "/lists"}),
    ("ARTEFACT_STORE", "file:///shared/lists", {"artefact_store": "file:///shared/lists"}),
    ("MASK_ENGINE", "xgrammar", {"mask_engine": "xgrammar"}),
]
"""A line of the file, and the settings that are then no longer at their default."""


def read(path: Path, *lines: str, environment: dict[str, str] | None = None, **args: object) -> Settings:
    path.write_text("\n".join(lines))
    return Settings.load({"env_file": str(path), **args}, environment or {})


def differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        name: differing(value, other[name]) if isinstance(value, dict) else value
        for name, value in one.items()
        if value != other[name]
    }


def test_each_name_has_its_effect_or_a_warning(tmp_path: Path) -> None:
    assert {name for name, _, _ in EFFECTS} == OLD_NAMES.keys() | ENVIRONMENT.keys()
    assert all(old.settings or old.warning for old in OLD_NAMES.values())
    usual, wrong = Settings.load({"secret_token": "a key"}, {}), []
    for name, value, effect in EFFECTS:
        key: dict[str, Any] = {} if "secret_token" in effect else {"secret_token": "a key"}
        # What a name of one server chooses has a test of its own.
        key["compatibility"] = "none"
        settings = read(tmp_path / ".env", f"{name}={value}", **key)
        warning = OLD_NAMES[name].warning if name in OLD_NAMES else None
        warnings = () if warning is None else (f"{name}: {warning}",)
        changed = differing(settings.model_dump(mode="json", exclude={"env_file"}), usual.model_dump(mode="json"))
        if settings.secret_token != usual.secret_token:
            changed["secret_token"] = settings.secret_token.get_secret_value()
        if (changed, settings.warnings) != (effect, warnings):
            wrong.append((name, value, changed, settings.warnings))
    assert wrong == []


def test_the_table_of_the_documentation_has_every_name_with_its_settings_and_warning() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*?) \| (.*) \|$", TABLE.read_text(), re.MULTILINE)
    assert [name for name, _, _ in rows] == list(OLD_NAMES)
    for name, settings, text in rows:
        old = OLD_NAMES[name]
        assert tuple(re.findall("`(.*?)`", settings)) == old.settings
        assert text.partition("Warning: ")[2] == (f"{old.warning}." if old.warning else "")


def test_a_whole_file_of_old_names_makes_one_service(tmp_path: Path) -> None:
    lines = {name: value for name, value, _ in EFFECTS if name not in ("PREBUILD_PREFIX", "LLM_SERVING_API_KEY")}
    settings = read(tmp_path / ".env", *(f"{name}={value}" for name, value in lines.items()), "PREBUILD_PREFIX=true")
    # Of two names for one setting the first in the table counts.
    assert (settings.model_name, settings.log_level) == ("some/model", "WARNING")
    assert (settings.prebuild_langs, settings.prebuilt_counts) == (("en", "es"), (1000, 5000))
    # And of names of two servers.
    assert settings.compatibility == "llm-serving"
    assert len(settings.warnings) == 1 + sum(old.warning is not None for old in OLD_NAMES.values())


WORDLIST_SERVER = """
SECRET_TOKEN=changeme
MODEL_NAME=google/gemma-3-27b-it
TRUST_REMOTE_CODE=false
TORCH_DTYPE=bf16
DEVICE_MAP=auto
ATTN_IMPLEMENTATION=sdpa
TOKENIZER_PADDING_SIDE=left
PAD_TO_MULTIPLE_OF=16
MAX_INPUT_TOKENS=512
ALLOWED_MAX_NEW_TOKENS=64,128,256,512
STATIC_KV_CACHE=false
PREBUILD_PREFIX=true
PREBUILD_WORD_COUNTS=3000
PREBUILD_LANGS=es
WORDLIST_DIR=wordlists
BATCH_JOB_PIPELINE_SIZE=8
BATCH_JOB_TEMP_DIR=
LOG_LEVEL=INFO
"""
LLM_SERVING = """
LLM_SERVING_MODEL_PATH=/models/tiny
LLM_SERVING_DEVICE=cpu
LLM_SERVING_API_KEY=
LLM_SERVING_LOG_LEVEL=INFO
"""


def test_the_example_file_of_each_server_is_taken_once_it_has_a_key_or_needs_none(tmp_path: Path) -> None:
    wordlist, serving = WORDLIST_SERVER.split(), LLM_SERVING.split()
    with pytest.raises(SettingsError, match=r"'changeme'.*openssl rand -hex 32.*WORDBOUND_DEMO=true"):
        read(tmp_path / ".env", *wordlist)
    settings = read(tmp_path / ".env", *wordlist, "WORDBOUND_DEMO=true")
    assert (settings.compatibility, settings.limits.allowed_new_tokens) == ("wordlist-server", (64, 128, 256, 512))
    assert settings.wordlist_dir == tmp_path / "wordlists"
    with pytest.raises(SettingsError, match=r"secret_token: missing; set SECRET_TOKEN.*loopback.*keyless: true"):
        read(tmp_path / ".env", *serving)
    settings = read(tmp_path / ".env", *serving, "WORDBOUND_KEYLESS=true")
    assert (settings.compatibility, settings.model_id) == ("llm-serving", "tiny")
    # Nobody knows the key that is made up, and another start has another one.
    assert settings.secret_token != read(tmp_path / ".env", *serving, "WORDBOUND_KEYLESS=yes").secret_token


@pytest.mark.fault(82)
@pytest.mark.parametrize("name", OLD_NAMES)
def test_a_name_that_one_server_alone_has_chooses_limits_and_shapes_and_opens_nothing(
    tmp_path: Path, name: str
) -> None:
    value = next(value for old, value, _ in EFFECTS if old == name)
    server = OLD_NAMES[name].server
    key: dict[str, Any] = {} if OLD_NAMES[name].settings == ("secret_token",) else {"secret_token": "k"}
    settings = read(tmp_path / ".env", f"{name}={value}", **key)
    assert settings.compatibility == (server or "none")
    assert not settings.opened
    assert not settings.any_model
    said = [warning for warning in settings.warnings if warning.startswith(f"compatibility: {server}, for {name} is")]
    assert len(said) == (server is not None)
    assert (f'compatibility = "{server}" (chosen for {name})' in settings.as_text()) == (server is not None)


def test_what_is_set_goes_before_what_the_compatibility_implies(tmp_path: Path) -> None:
    old = ["SECRET_TOKEN=k", "ALLOWED_MAX_NEW_TOKENS=64,128"]

    def implied(*lines: str, **args: Any) -> tuple[Any, ...]:
        settings = read(tmp_path / ".env", *old, *lines, **args)
        return settings.compatibility, settings.hint, settings.no_repeat_ngram_size, settings.input_overflow

    assert implied() == ("wordlist-server", False, 0, "truncate_text")
    assert implied("WORDBOUND_HINT=true", "INPUT_OVERFLOW=error", no_repeat_ngram_size=3) == (
        "wordlist-server", True, 3, "error",
    )  # fmt: skip
    assert implied(compatibility="none") == ("none", True, 4, "error")
    assert implied("WORDBOUND_COMPATIBILITY=llm-serving") == ("llm-serving", True, 4, "error")
    with pytest.raises(SettingsError, match=r"WORDBOUND_COMPATIBILITY='old'.*'wordlist-server'"):
        implied("WORDBOUND_COMPATIBILITY=old")


def test_a_name_replaces_what_it_gives_of_another_source(tmp_path: Path) -> None:
    environment = {"SECRET_TOKEN": "k", "ALLOWED_MAX_NEW_TOKENS": "32"}
    limits = read(tmp_path / ".env", "ALLOWED_MAX_NEW_TOKENS=16,64", environment=environment).limits
    assert (limits.max_new_tokens, limits.allowed_new_tokens) == (32, ())
    settings = read(tmp_path / ".env", "PREBUILD_LANGS=en", "PREBUILD_PREFIX=no", secret_token="k", prebuild_langs="es")
    assert settings.prebuild_langs == ()


def test_the_environment_goes_before_secrets_the_file_and_yaml_in_this_order(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "secret_token").write_text("from a secret")
    (secrets / "TORCH_DTYPE").write_text("bf16\n")
    settings = read(
        tmp_path / ".env",
        "# the old server's",
        "export secret_token='from the file'",
        f"SECRETS_DIR={secrets}",
        "TORCH_DTYPE=fp16",
        'MAX_INPUT_TOKENS="50"',
        "LOG_LEVEL=",
        environment={"TORCH_DTYPE": "fp32"},
        limits={"max_input_tokens": 70, "max_new_tokens": 7},
        log_level="error",
    )
    assert settings.secret_token.get_secret_value() == "from a secret"
    assert (settings.torch_dtype, settings.log_level) == ("float32", "ERROR")
    assert (settings.limits.max_input_tokens, settings.limits.max_new_tokens) == (50, 7)
    result = settings.as_text().splitlines()
    sources = f"environment TORCH_DTYPE, over secret file TORCH_DTYPE, over {tmp_path}/.env TORCH_DTYPE"
    assert f'torch_dtype = "float32" ({sources})' in result
    assert f"limits.max_input_tokens = 50 ({tmp_path}/.env MAX_INPUT_TOKENS, over YAML)" in result
    assert "from" not in settings.as_text()


def test_the_file_in_the_working_directory_is_read_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("SECRET_TOKEN=k\nMAX_INPUT_TOKENS=5\n")
    monkeypatch.chdir(tmp_path)
    assert Settings.load({}).limits.max_input_tokens == 5
    (tmp_path / "other").write_text("SECRET_TOKEN=k\nMAX_INPUT_TOKENS=6\n")
    monkeypatch.setenv("WORDBOUND_ENV_FILE", "other")
    assert Settings.load({}).limits.max_input_tokens == 6
    # An environment that is given stands for everything of this process.
    assert Settings.load({"secret_token": "k"}, {}).limits.max_input_tokens != 5


def test_names_that_are_no_settings_are_told_without_their_values(tmp_path: Path) -> None:
    settings = read(tmp_path / ".env", "SECRET_TOKEN=k", "NEVER_HEARD=hunter2", "WORDBOUND_HINT=false")
    assert not settings.hint
    assert settings.warnings == (f"{tmp_path}/.env: these names are no settings and are ignored: NEVER_HEARD",)


def test_a_bad_value_in_the_file_and_a_file_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"TORCH_DTYPE='float8': .*float32"):
        read(tmp_path / ".env", "SECRET_TOKEN=k", "TORCH_DTYPE=float8")
    with pytest.raises(SettingsError, match=r"env_file='.*/none'.*No such file"):
        Settings.load({"secret_token": "k", "env_file": str(tmp_path / "none")}, {})
    with pytest.raises(SettingsError, match=r"WORDBOUND_ENV_FILE=.*NAME=value"):
        Settings.load({"secret_token": "k"}, {"WORDBOUND_ENV_FILE": str(tmp_path)})
    (tmp_path / "latin").write_bytes(b"SECRET_TOKEN=hunter\xff")
    with pytest.raises(SettingsError, match="UTF-8") as error:
        Settings.load({"env_file": str(tmp_path / "latin")}, {})
    assert "hunter" not in str(error.value)
