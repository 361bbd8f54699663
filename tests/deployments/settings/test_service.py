import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from ray.serve.config import AutoscalingConfig

from deployments.replica.engine.autoscaling import POLICY, autoscaling_config
from deployments.settings.keys import Key, digest_of
from deployments.settings.service import Settings, SettingsError, cache_dir
from deployments.settings.types import REPLACED

A = digest_of(b"a key of alice's")
B = digest_of(b"a key of bob's")


def load(environment: dict[str, str] | None = None, **args: object) -> Settings:
    return Settings.load({"secret_token": "a key", **args}, environment or {})


def test_any_setting_comes_from_a_variable_with_the_prefix() -> None:
    environment = {
        "WORDBOUND_HINT": "false",
        "WORDBOUND_LIMITS__MAX_STOP": "2",
        "WORDBOUND_BATCH__LIMITS__MAX_LINES": "5",
        "WORDBOUND_ENGINE_KWARGS": '{"max_num_seqs": 8}',
        "WORDBOUND_KEYS__ALICE__SHA256": A,
        "WORDBOUND_KEYS__ALICE__MAX_UPLOADS": "3",
        "WORDBOUND_TORCH_DTYPE": "float16",
        "TORCH_DTYPE": "float32",
        "WORDBOUND_STATE": "/no/setting",
    }
    settings = load(environment, engine_kwargs={"max_num_seqs": 4, "seed": 1}, batch={"limits": {"max_open": 7}})
    assert not settings.hint
    assert settings.limits.max_stop == 2
    assert (settings.batch.limits.max_lines, settings.batch.limits.max_open) == (5, 7)
    assert settings.engine_kwargs == {"max_num_seqs": 8, "seed": 1}
    assert settings.key("alice") == Key(sha256=A, max_uploads=3)
    assert settings.torch_dtype == "float16"
    # An empty one gives nothing.
    assert load({"TORCH_DTYPE": " ", "WORDBOUND_HINT": ""}, torch_dtype="float16").torch_dtype == "float16"


@pytest.mark.fault(76)
def test_a_relative_path_begins_in_the_folder_of_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there", "secrets", "there/secrets"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "there" / ".env").write_text("WORDLIST_DIR=lists\nSECRETS_DIR=secrets\n")
    (tmp_path / "secrets" / "WORDLIST_DIR").write_text("../lists\n")
    assert load({"WORDLIST_DIR": "lists"}).wordlist_dir == tmp_path / "here" / "lists"
    assert load({"WORDLIST_DIR": "~/lists"}).wordlist_dir == Path.home() / "lists"
    assert load({"WORDBOUND_ENV_FILE": "../there/.env"}).wordlist_dir == tmp_path / "here/../there/lists"
    assert load({"SECRETS_DIR": "../secrets"}).wordlist_dir == tmp_path / "here/../secrets/../lists"
    args = {"secret_token": "a key", "wordlist_dir": "lists"}
    assert Settings.load(args, {}, tmp_path).wordlist_dir == tmp_path / "lists"


def test_keys_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "secret_token").write_text("from a file\n")
    (tmp_path / "WORDBOUND_KEYS").write_text(json.dumps({"alice": {"sha256": A}}))
    (tmp_path / "WORDBOUND_BATCH__DATABASE").write_text("sqlite:////x")
    (tmp_path / "ca.crt").write_bytes(b"\xff")
    settings = Settings.load({"secrets_dir": str(tmp_path)}, {})
    assert settings.key_digests == {"default": digest_of(b"from a file"), "alice": A}
    assert settings.batch.resolved_database() == "sqlite:////x"


def test_settings_travel_to_another_process_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load({"WORDBOUND_HINT": "false"}, prebuild_prefix=70)
    monkeypatch.setenv("WORDBOUND_PREBUILD_PREFIX", "80")
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301


def test_pages_are_named_in_yaml_or_a_variable_and_a_model_in_a_folder_for_the_folder() -> None:
    pages = ("https://app.example.com", "http://localhost:3000")
    assert load(cors_origins=list(pages)).cors_origins == pages
    assert load({"WORDBOUND_CORS_ORIGINS": ", ".join(pages)}).cors_origins == pages
    assert load(cors_origins="*").cors_origins == ("*",)
    assert load(model_name="/models/tiny/").model_id == "tiny"
    assert load(model_name="/models/tiny", model_id="mine").model_id == "mine"


def refusal(environment: dict[str, str] | None = None, **args: object) -> str:
    with pytest.raises(SettingsError) as error:
        load(environment, **args)
    return str(error.value)


def test_a_bad_setting_is_named_with_its_value_and_what_was_expected() -> None:
    faults: list[tuple[dict[str, object], dict[str, str], list[str]]] = [
        ({"colour": "red"}, {}, ["colour", "unknown setting", "model_name"]),
        ({"limits": {"max_words": 1}}, {}, ["limits.max_words", "unknown setting"]),
        ({"limits": {"allowed_new_tokens": [5000]}}, {}, ["limits", "allowed_new_tokens above max_new_tokens"]),
        ({"limits": {"max_n": 0}}, {}, ["limits.max_n=0", "greater than or equal to 1"]),
        ({"limits": {"max_tools": 50}}, {}, ["limits.max_tools is no longer", "always 128; leave it out"]),
        ({}, {"WORDBOUND_LIMITS__MAX_ROWS": "9"}, ["limits.max_rows is no longer a setting", "always 1024"]),
        ({"limits": 3}, {}, ["limits=3", "keys and values"]),
        ({"secrets_dir": "/no/folder"}, {}, ["secrets_dir='/no/folder'", "folder of text files"]),
        ({}, {"SECRETS_DIR": "/no/folder"}, ["SECRETS_DIR='/no/folder'", "folder of text files"]),
        ({}, {"WORDBOUND_LIMITS": "few"}, ["WORDBOUND_LIMITS='few'", "keys and values"]),
        ({}, {"WORDBOUND_LIMITS__MAX_WORDS": "1"}, ["WORDBOUND_LIMITS__MAX_WORDS", "unknown setting"]),
        ({}, {"WORDBOUND_ENGINE_KWARGS": "{"}, ["WORDBOUND_ENGINE_KWARGS='{'", "keys and values"]),
        ({"torch_dtype": "float16"}, {"TORCH_DTYPE": "float8"}, ["TORCH_DTYPE='float8'", "float32"]),
        ({"prebuild_prefix": "many"}, {}, ["prebuild_prefix='many'", "integer"]),
        ({"max_sequences": 0}, {}, ["max_sequences=0", "greater than or equal to 1"]),
        ({"artefact_bytes": 1000}, {}, ["artefact_bytes=1000", "greater than or equal to 1048576"]),
        ({"compile_deadline_s": 0}, {}, ["compile_deadline_s=0", "greater than 0"]),
        ({}, {"ARTEFACT_STORE": "magic://lists"}, ["ARTEFACT_STORE='magic://lists'", "fsspec"]),
        ({}, {"MASK_ENGINE": "magic"}, ["MASK_ENGINE='magic'", "'automaton' or 'xgrammar'"]),
        ({}, {"MAX_INPUT_TOKENS": "-1"}, ["MAX_INPUT_TOKENS='-1'", "greater than or equal to 1"]),
        *(
            ({}, {"ALLOWED_MAX_NEW_TOKENS": given}, [f"ALLOWED_MAX_NEW_TOKENS='{given}'", "commas"])
            for given in ("16;256", "{}")
        ),
        ({}, {"PREBUILD_PREFIX": "maybe"}, ["PREBUILD_PREFIX='maybe'", "integer"]),
        ({}, {"PREBUILD_WORD_COUNTS": "0,5"}, ["PREBUILD_WORD_COUNTS", "at least 1"]),
        ({}, {"INPUT_OVERFLOW": "ignore"}, ["INPUT_OVERFLOW='ignore'", "'error', 'truncate' or 'truncate_text'"]),
        ({"placement_strategy": "TIGHT"}, {}, ["placement_strategy='TIGHT'", "STRICT_PACK"]),
        ({"cors_origins": ["https://a.example/"]}, {}, ["cors_origins", "https://a.example/", "no slash at the end"]),
        ({"cors_origins": ["a.example"]}, {}, ["cors_origins", "https://app.example.com"]),
        ({}, {"WORDBOUND_CORS_ORIGINS": "https://A.example"}, ["WORDBOUND_CORS_ORIGINS", "small letters"]),
    ]
    # Ray's own, and not those that are replaced.
    scaling: list[tuple[dict[str, Any], list[str]]] = [
        ({"min_replicas": 2}, ["autoscaling=", "max_replicas (1) must be", "min_replicas (2)"]),
        ({"initial_replicas": 0}, ["autoscaling=", "min_replicas (1) must be", "initial_replicas (0)"]),
        ({"initial_replicas": 3}, ["autoscaling=", "max_replicas (1) must be", "initial_replicas (3)"]),
        ({"upscaling_factor": 0}, ["autoscaling.upscaling_factor=0: ", "greater than 0"]),
        ({"aggregation_function": "median"}, ["autoscaling.aggregation_function='median': ", "'mean', 'max' or 'min'"]),
        ({"policy": {"policy_function": "nowhere"}}, ["autoscaling.policy.policy_function='nowhere': ", "pattern"]),
        ({"max_replica": 3}, ["autoscaling.max_replica: unknown setting; known are agg", " policy, target_sequences,"]),
        *(({name: 2}, ["autoscaling=", f"{name}: expected {how.split()[0]}"]) for name, how in REPLACED.items()),
    ]
    faults += [({"autoscaling": said}, {}, parts) for said, parts in scaling]
    sizes: list[tuple[list[dict[str, float]] | None, dict[str, object], list[str]]] = [
        (
            [{"GPU": 1}] * 2,
            {"tensor_parallel_size": 4},
            ["expected 4 bundles with a GPU", "tensor_parallel_size=4", "2 GPUs in 2"],
        ),
        ([{"GPU": 1}] * 2, {}, ["expected 1 bundles with a GPU", "tensor_parallel_size=1", "2 GPUs in 2"]),
        ([{"GPU": 2, "CPU": 1}], {"tensor_parallel_size": 2}, ["expected 2 bundles with a GPU", "2 GPUs in 1"]),
        ([{"GPU": 2}], {}, ["expected 1 bundles with a GPU", "2 GPUs in 1"]),
        (
            [{"GPU": 1}] * 4,
            {"tensor_parallel_size": 4, "pipeline_parallel_size": 2},
            ["expected 8 bundles with a GPU", "tensor_parallel_size=4 x pipeline_parallel_size=2", "4 GPUs in 4"],
        ),
        (None, {"data_parallel_size": 2}, ["data_parallel_size=2: expected 1", "autoscaling to 2"]),
        (None, {"tensor_parallel_size": "two"}, ["whole numbers from 1 on", "tensor_parallel_size='two'"]),
        (None, {"pipeline_parallel_size": -1}, ["whole numbers from 1 on", "pipeline_parallel_size=-1"]),
    ]
    faults += [({"placement_bundles": given, "engine_kwargs": kwargs}, {}, parts) for given, kwargs, parts in sizes]
    faults += [
        ({name: "lists"}, {}, [f"{name}='lists': expected an absolute path"])
        for name in ("wordlist_dir", "secrets_dir", "env_file")
    ]
    for args, environment, parts in faults:
        message = refusal(environment, **args)
        assert not [part for part in parts if part not in message], message
    with pytest.raises(SettingsError, match="1: unknown setting"):
        Settings.load({"secret_token": "k", 1: 2}, {})  # type: ignore[dict-item]


def test_bundles_that_fit_the_workers_of_the_engine_are_taken() -> None:
    for bundles, kwargs in (
        ([{"GPU": 0.5, "CPU": 1.0}], {}),
        ([{"GPU": 1.0}] * 8, {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}),
        ([{"CPU": 1.0}, *[{"GPU": 1.0}] * 2], {"tensor_parallel_size": 2, "data_parallel_size": 1}),
        ([{"GPU": 1.0}] * 4, {"tensor_parallel_size": 2, "prefill_context_parallel_size": 2}),
        # On processors.
        ([{"CPU": 1.0}], {"tensor_parallel_size": 2}),
        (None, {"tensor_parallel_size": 4}),
    ):
        assert load(placement_bundles=bundles, engine_kwargs=kwargs).placement_bundles == bundles


def test_the_key_must_be_given_and_that_of_the_demo_is_refused_outside_it() -> None:
    with pytest.raises(SettingsError, match="secret_token: missing; set SECRET_TOKEN") as error:
        Settings.load({}, {})
    # What was set where ``serve run`` was called is not what the cluster sees.
    for way in ("a file of that name in secrets_dir", "runtime_env.env_vars", "`ray start`", "docs/deploying.md"):
        assert way in str(error.value)
    with pytest.raises(SettingsError, match="changeme"):
        Settings.load({}, {"SECRET_TOKEN": "changeme"})
    assert Settings.load({"demo": True}, {"SECRET_TOKEN": "changeme"}).demo


def test_more_keys_have_names_and_the_first_is_the_default() -> None:
    settings = load(keys={"alice": {"sha256": A}, "bob_2-x": {"sha256": B}, "default": {"max_sequences": 3}})
    assert settings.key_digests == {"default": digest_of(b"a key"), "alice": A, "bob_2-x": B}
    assert settings.key("default").max_sequences == 3
    assert settings.key("alice").max_sequences is None
    # Where there is one key, nobody else needs the rest.
    assert (settings.share_of_key, load().share_of_key) == (0.75, 1.0)
    # That of sha256sum.
    assert digest_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_bad_key_among_several_is_refused() -> None:
    names: list[Any] = ["Alice", "", "a" * 65, "a b", 5]
    bad: list[Any] = [
        *({name: {"sha256": A}} for name in names),
        {"alice": {}},
        {"alice": {"sha256": "k"}},
        {"alice": {"sha256": A.upper()}},
        {"alice": {"sha256": A, "max_sequences": 0}},
        {"alice": {"sha256": A, "sequences": 5}},
        {"alice": {"sha256": A, "use": "everything"}},
        {"alice": A},
        {"default": {"sha256": A}},
        [A],
    ]
    assert not [keys for keys in bad if not refusal(keys=keys).startswith("keys")]
    # Every key is somebody's own.
    for taken in (digest_of(b"a key"), digest_of(b"changeme")):
        assert refusal(keys={"alice": {"sha256": taken}})
    assert refusal(keys={"alice": {"sha256": A}, "bob": {"sha256": A}})


def test_rates_of_several_ingresses_need_a_store_that_they_share() -> None:
    keys = {"alice": {"sha256": A, "requests_per_minute": 5}}
    with pytest.raises(SettingsError, match="rates_url: expected a store that the ingresses share"):
        load(keys=keys, ingress_replicas=2)
    assert load(keys=keys, ingress_replicas=2, rates_url="async+redis://localhost:6379").ingress_replicas == 2
    assert load(keys={"alice": {"sha256": A}}, ingress_replicas=2).ingress_replicas == 2
    for url in ("redis://localhost", "async+memcached://localhost:1", "nonsense"):
        with pytest.raises(SettingsError, match=r"^rates_url=.*expected"):
            load(rates_url=url)


def test_a_bad_key_is_not_shown() -> None:
    keys: list[Any] = [{"hunter2-Swapped": "alice"}, {"alice": ["hunter2"]}, {"alice": "hunter2"}, "hunter2"]
    given: list[tuple[dict[str, Any], dict[str, str]]] = [
        *(({"secret_token": "a key", "keys": one}, {}) for one in keys),
        ({"secret_token": ["hunter2"]}, {}),
        ({"batch": {"database": ["hunter2"]}}, {}),
        ({"replica_env": {"HF_TOKEN": ["hunter2"]}}, {}),
        ({}, {"WORDBOUND_KEYS": "hunter2"}),
        ({}, {"WORDBOUND_KEYS__ALICE__SHA256": "hunter2"}),
        ({"rates_url": "async+redis://:hunter2@nowhere:port"}, {}),
    ]
    for args, environment in given:
        with pytest.raises(SettingsError) as error:
            Settings.load(args, environment)
        assert "hunter2" not in str(error.value)


def test_the_text_hides_every_secret() -> None:
    settings = load(
        secret_token="hunter2",
        hf_token="hunter5",
        replica_env={"HF_TOKEN": "hunter3", "OMP_NUM_THREADS": "1"},
        engine_kwargs={"hf_token": "hunter4"},
    )
    text = settings.as_text()
    assert "hunter" not in text
    assert 'hf_token = "**********"' in text
    assert '"OMP_NUM_THREADS": "1"' in text


def test_the_text_says_where_each_setting_comes_from_and_leaves_out_defaults(tmp_path: Path) -> None:
    (tmp_path / "SECRET_TOKEN").write_text("k")
    environment = {"TORCH_DTYPE": "float32", "MAX_INPUT_TOKENS": "9", "SECRETS_DIR": str(tmp_path)}
    settings = Settings.load({"torch_dtype": "bfloat16", "limits": {"max_stop": 2}}, environment)
    assert settings.as_text().splitlines() == [
        'torch_dtype = "float32" (environment TORCH_DTYPE, over YAML)',
        f'secrets_dir = "{tmp_path}" (environment SECRETS_DIR)',
        "limits.max_input_tokens = 9 (environment MAX_INPUT_TOKENS)",
        'secret_token = "**********" (secret file SECRET_TOKEN)',
        "limits.max_stop = 2 (YAML)",
    ]


def test_each_key_has_a_part_of_the_prefix_cache_that_only_this_service_can_name() -> None:
    salts = {
        (secret, owner): load(secret_token=secret).cache_salt(owner)
        for secret in ("one", "two")
        for owner in ("default", "alice")
    }
    assert len(set(salts.values())) == 4
    assert load(secret_token="one").cache_salt("alice") == salts["one", "alice"]
    assert load(prefix_cache_per_key=False).cache_salt("alice") is None


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORDBOUND_CACHE", "/a")
    assert str(load().resolved_artefact_dir()) == "/a/artefacts"
    assert str(load(artefact_dir="/b").resolved_artefact_dir()) == "/b"
    monkeypatch.delenv("WORDBOUND_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert str(cache_dir()) == "/c/wordbound"


def scaling_of(**said: object) -> AutoscalingConfig:
    """What Ray gets for these settings."""
    return AutoscalingConfig(**autoscaling_config(load(autoscaling=said).autoscaling))


def test_defaults_of_autoscaling_are_rays_except_what_a_replica_aims_at() -> None:
    ours, rays = scaling_of(), AutoscalingConfig()
    assert ours.model_dump(exclude={"policy"}) == rays.model_dump(exclude={"policy"}) | {"target_ongoing_requests": 32}
    assert ours.policy.policy_function == POLICY


def test_what_is_said_of_replicas_reaches_ray() -> None:
    said = {
        "min_replicas": 0,
        "initial_replicas": 2,
        "max_replicas": 5,
        "upscale_delay_s": 1.0,
        "downscale_delay_s": 2.0,
        "downscale_to_zero_delay_s": 3.0,
        "upscaling_factor": 0.5,
        "downscaling_factor": 0.25,
        "look_back_period_s": 60.0,
        "aggregation_function": "max",
        "policy": {
            "policy_function": "deployments.replica.engine.autoscaling:autoscaling_config",
            "policy_kwargs": {"most": 3},
        },
    }
    found = scaling_of(**said, target_sequences=7)
    assert found.model_dump(include=said.keys()) == said
    assert found.target_ongoing_requests == 7
