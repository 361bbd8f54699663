from typing import Any

import pytest

from deployments.settings import Settings, SettingsError, cache_dir


def load(environment: dict[str, str] | None = None, **args: object) -> Settings:
    return Settings.load({"secret_token": "a key", **args}, environment or {})


def test_yaml_overrides_the_environment_which_overrides_the_defaults() -> None:
    environment = {"MAX_INPUT_TOKENS": "100", "PREBUILD_PREFIX": "50"}
    settings = load(environment, prebuild_prefix=70)
    assert settings.prebuild_prefix == 70
    assert settings.limits.max_input_tokens == 100
    assert load().limits.max_input_tokens != 100


def test_every_environment_name_keeps_its_meaning() -> None:
    settings = Settings.load(
        {},
        {
            "SECRET_TOKEN": "k",
            "MODEL_NAME": "some/model",
            "TRUST_REMOTE_CODE": "true",
            "TORCH_DTYPE": "float16",
            "MAX_INPUT_TOKENS": "77",
            "ALLOWED_MAX_NEW_TOKENS": "16, 256,64",
            "PREBUILD_PREFIX": "500",
            "PREBUILD_LANGS": "en, es",
            "WORDLIST_DIR": "/lists",
            "ARTEFACT_STORE": "file:///shared/lists",
            "LOG_LEVEL": "warning",
            "MASK_ENGINE": "xgrammar",
        },
    )
    assert settings.secret_token.get_secret_value() == "k"
    assert (settings.model_name, settings.model_id) == ("some/model", "some/model")
    assert settings.trust_remote_code
    assert settings.torch_dtype == "float16"
    assert settings.limits.max_input_tokens == 77
    assert settings.limits.max_new_tokens == 256
    assert settings.prebuild_prefix == 500
    assert settings.prebuild_langs == ("en", "es")
    assert str(settings.wordlist_dir) == "/lists"
    assert settings.artefact_store == "file:///shared/lists"
    assert settings.log_level == "WARNING"
    assert settings.mask_engine == "xgrammar"


def test_limits_of_yaml_and_environment_are_put_together() -> None:
    settings = load({"MAX_INPUT_TOKENS": "100"}, limits={"max_new_tokens": 7})
    assert (settings.limits.max_input_tokens, settings.limits.max_new_tokens) == (100, 7)


def test_a_model_in_a_folder_is_named_for_the_folder() -> None:
    assert load(model_name="/models/tiny/").model_id == "tiny"
    assert load(model_name="/models/tiny", model_id="mine").model_id == "mine"


@pytest.mark.parametrize(
    ("args", "environment", "parts"),
    [
        ({"colour": "red"}, {}, ["colour", "unknown setting", "model_name"]),
        ({"limits": {"max_words": 1}}, {}, ["limits.max_words", "unknown setting"]),
        ({"limits": 3}, {}, ["limits=3", "keys and values"]),
        ({"prebuild_prefix": "many"}, {}, ["prebuild_prefix='many'", "integer"]),
        ({"max_ongoing_requests": 0}, {}, ["max_ongoing_requests=0", "greater than or equal to 1"]),
        ({"artefact_bytes": 1000}, {}, ["artefact_bytes=1000", "greater than or equal to 1048576"]),
        ({"compile_deadline_s": 0}, {}, ["compile_deadline_s=0", "greater than 0"]),
        ({}, {"ARTEFACT_STORE": "magic://lists"}, ["ARTEFACT_STORE='magic://lists'", "fsspec"]),
        ({}, {"MASK_ENGINE": "magic"}, ["MASK_ENGINE='magic'", "'automaton' or 'xgrammar'"]),
        ({}, {"MAX_INPUT_TOKENS": "-1"}, ["MAX_INPUT_TOKENS='-1'", "greater than or equal to 1"]),
        ({}, {"ALLOWED_MAX_NEW_TOKENS": "16;256"}, ["ALLOWED_MAX_NEW_TOKENS='16;256'", "commas"]),
        ({"autoscaling": {"min_replicas": 2, "max_replicas": 1}}, {}, ["autoscaling.max_replicas"]),
    ],
)
def test_a_bad_setting_is_named_with_its_value_and_what_was_expected(
    args: dict[str, object], environment: dict[str, str], parts: list[str]
) -> None:
    with pytest.raises(SettingsError) as error:
        load(environment, **args)
    for part in parts:
        assert part in str(error.value)


def test_the_key_must_be_given() -> None:
    with pytest.raises(SettingsError, match="secret_token: missing; set SECRET_TOKEN"):
        Settings.load({}, {})


def test_the_key_of_the_demo_is_refused_outside_it() -> None:
    with pytest.raises(SettingsError, match="changeme"):
        Settings.load({}, {"SECRET_TOKEN": "changeme"})
    assert Settings.load({"demo": True}, {"SECRET_TOKEN": "changeme"}).demo


def test_more_keys_have_names_and_the_first_is_the_default() -> None:
    settings = load(more_tokens={"alice": "a", "bob_2-x": "b"})
    keys = {name: key.get_secret_value() for name, key in settings.named_keys.items()}
    assert keys == {"default": "a key", "alice": "a", "bob_2-x": "b"}


@pytest.mark.parametrize(
    "tokens",
    [{"Alice": "k"}, {"": "k"}, {"a" * 65: "k"}, {"a b": "k"}, {"alice": ""}, {"default": "k"}, {"alice": 5}, ["k"]],
)
def test_a_bad_name_of_a_key_is_refused(tokens: Any) -> None:
    with pytest.raises(SettingsError, match=r"^more_tokens"):
        load(more_tokens=tokens)


@pytest.mark.parametrize("tokens", [{"alice": "a key"}, {"alice": "k", "bob": "k"}, {"alice": "changeme"}])
def test_every_key_is_somebodys_own(tokens: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        load(more_tokens=tokens)


@pytest.mark.parametrize("tokens", [{"Hunter2-swapped": "alice"}, {"alice": ["hunter2"]}, "hunter2"])
def test_no_bad_key_of_several_is_shown(tokens: Any) -> None:
    with pytest.raises(SettingsError) as error:
        load(more_tokens=tokens)
    assert "unter2" not in str(error.value)


def test_a_bad_key_is_not_shown() -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load({"secret_token": ["hunter2"]}, {})
    assert "hunter2" not in str(error.value)


def test_the_text_hides_every_secret() -> None:
    settings = load(
        secret_token="hunter2",
        more_tokens={"alice": "hunter5"},
        replica_env={"HF_TOKEN": "hunter3", "OMP_NUM_THREADS": "1"},
        engine_kwargs={"hf_token": "hunter4"},
    )
    text = settings.as_text()
    assert "hunter" not in text
    assert '"OMP_NUM_THREADS": "1"' in text


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORDBOUND_CACHE", "/a")
    assert str(load().resolved_artefact_dir()) == "/a/artefacts"
    assert str(load(artefact_dir="/b").resolved_artefact_dir()) == "/b"
    monkeypatch.delenv("WORDBOUND_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert str(cache_dir()) == "/c/wordbound"
