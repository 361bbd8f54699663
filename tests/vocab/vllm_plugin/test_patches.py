"""Patches of functions that are as recorded, and of functions that are not."""

import sys
from types import ModuleType
from typing import Any

import pytest
import vllm

from vocab.vllm_plugin import patches
from vocab.vllm_plugin.patches import Patch, install_patches, signature_of


class Owner:
    def double(self, number: int, *, times: int = 1) -> int:
        return 2 * number * times


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> type[Owner]:
    """A library of one module with one class, which is a new one for each test."""
    module, owner = ModuleType("some_library"), type("Owner", (), {"double": Owner.double})
    monkeypatch.setattr(module, "Owner", owner, raising=False)
    monkeypatch.setitem(sys.modules, "some_library", module)
    return owner


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    messages: list[str] = []
    monkeypatch.setattr(patches.logger, "warning", lambda message, *values: messages.append(message % values))
    return messages


def plus_one(original: Any, owner: Any, number: int) -> int:
    return int(original(owner, number)) + 1


def times_ten(original: Any, owner: Any, number: int) -> int:
    return int(original(owner, number)) * 10


TARGET, SIGNATURE = "some_library:Owner.double", "(self, number, *, times=1)"


def test_a_patch_is_installed_once(library: type[Owner], log: list[str]) -> None:
    for _ in range(2):
        assert install_patches([Patch(TARGET, SIGNATURE, plus_one)], lost="a number")
    assert library().double(3) == 7
    assert log == []


def test_another_patch_goes_around_the_first(library: type[Owner]) -> None:
    for wrapper in (plus_one, times_ten, plus_one):
        assert install_patches([Patch(TARGET, SIGNATURE, wrapper)], lost="a number")
    assert library().double(3) == 70


def test_a_function_of_a_module_can_be_patched_and_a_class_checked(library: type[Owner]) -> None:
    sys.modules["some_library"].double = lambda number: 2 * number  # type: ignore[attr-defined]
    wrapped = Patch("some_library:double", "(number)", lambda original, number: original(number) + 1)
    assert install_patches([wrapped, Patch("some_library:Owner", "()")], lost="a number")
    assert sys.modules["some_library"].double(3) == 7
    assert sys.modules["some_library"].Owner is library


@pytest.mark.parametrize(
    ("target", "signature", "reason"),
    [
        (TARGET, "(self, number)", "has the signature (self, number, *, times=1), not (self, number)"),
        (TARGET, "(self, number, *, times=2)", "not (self, number, *, times=2)"),
        ("some_library:Owner.triple", "(self)", "triple"),
        ("some_library:Stranger.double", SIGNATURE, "Stranger"),
        ("no_library_of_that_name:double", SIGNATURE, "no_library_of_that_name"),
    ],
)
def test_nothing_is_patched_where_one_target_has_changed(
    library: type[Owner], log: list[str], target: str, signature: str, reason: str
) -> None:
    before = library.double
    both = [Patch(TARGET, SIGNATURE, plus_one), Patch(target, signature, plus_one)]
    assert not install_patches(both, lost="The number is wrong")
    assert library.double is before
    assert len(log) == 1
    assert log[0].startswith("The number is wrong: ") and reason in log[0]


@pytest.mark.parametrize(
    ("version", "is_installed"),
    [("0.29.0", True), ("0.29.3+cpu", True), ("0.29.1rc2", True), ("0.30.0", False), ("0.2.9", False), ("1.29", False)],
)
def test_a_patch_for_some_versions_is_left_out_in_others(
    library: type[Owner], log: list[str], monkeypatch: pytest.MonkeyPatch, version: str, is_installed: bool
) -> None:
    monkeypatch.setattr(vllm, "__version__", version)
    patch = Patch(TARGET, SIGNATURE, plus_one)
    assert install_patches([patch], lost="a number", vllm_versions={"0.29"}) is is_installed
    assert library().double(3) == 6 + is_installed
    assert log == [] if is_installed else f"vLLM is {version}, and this was tried on 0.29" in log[0]


def test_annotations_are_no_part_of_a_signature() -> None:
    def annotated(a: int, /, b: "str", *args: Any, c: None = None, **kwargs: Any) -> None:
        raise NotImplementedError

    assert signature_of(annotated) == "(a, /, b, *args, c=None, **kwargs)"
