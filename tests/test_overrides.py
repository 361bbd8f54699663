"""What replaces a method of a base says so, and the base has it: a rename there, by us or by others, fails here.

mypy does not see it: the bases that come from Ray, vLLM and torch have no types for it, nor has what is made of them.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType, ModuleType

import deployments
import vocab
import wordbound

PACKAGES = (vocab, deployments, wordbound)
OPTIONAL = {"genlm", "guidance"}
"""Their bridges run in environments of their own."""


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name.endswith(".__main__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            assert error.name is not None
            assert error.name.partition(".")[0] in OPTIONAL


def is_ours(found: type | FunctionType) -> bool:
    return found.__module__.partition(".")[0] in {package.__name__ for package in PACKAGES}


def complete_classes() -> Iterator[type]:
    """Yield our classes that no other of ours is made from: a mixin's methods replace those of the class beside it."""
    for package in PACKAGES:
        for module in modules(package):
            for found in vars(module).values():
                if (
                    inspect.isclass(found)
                    and found.__module__ == module.__name__
                    and not any(is_ours(made) for made in found.__subclasses__())
                ):
                    yield found


def function_of(member: object) -> FunctionType | None:
    for holder, name in ((property, "fget"), (cached_property, "func"), ((classmethod, staticmethod), "__func__")):
        if isinstance(member, holder):
            member = getattr(member, name)
    return member if isinstance(member, FunctionType) and is_ours(member) else None


def test_methods_say_that_they_replace_one_of_a_base_exactly_where_they_do() -> None:
    num_overrides = 0
    lost, unsaid = set[str](), set[str]()
    for made in complete_classes():
        mro = made.__mro__[:-1]
        for place, owner in enumerate(mro):
            for name, member in vars(owner).items() if is_ours(owner) else ():
                method = function_of(member)
                if method is None or (name.startswith("__") and name.endswith("__")):
                    continue
                says_so = getattr(method, "__override__", False)
                does_so = any(name in vars(base) for base in mro[place + 1 :])
                where = f"{owner.__module__}.{owner.__qualname__}.{name}"
                num_overrides += does_so
                if says_so and not does_so:
                    lost.add(f"{where} replaces nothing in {made.__qualname__}: what it replaced has another name now")
                if does_so and not says_so:
                    unsaid.add(f"{where} replaces a method and has no typing_extensions.override")
    assert not lost
    assert not unsaid
    assert num_overrides > 100
