"""The names under which genlm-backend's programs and tests import what they use: our modules, and some stand-ins."""

import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vocab.errors import CompileError

OURS: Final = {
    "genlm.backend": "wordbound.lm",
    "genlm.backend.cache": "wordbound.lm.cache",
    "genlm.backend.llm": "wordbound.lm",
    "genlm.backend.tokenization": "wordbound.lm",
    "genlm.backend.trie": "wordbound.lm",
}


class compare:  # noqa: N801 - its name in the package arsenal
    """The largest relative difference of two rows: |x - y| / max(|x|, |y|), 0 where both are 0, of finite ones."""

    def __init__(self, want: npt.NDArray[Any], have: npt.NDArray[Any]) -> None:
        want, have = np.asarray(want, np.float64), np.asarray(have, np.float64)
        largest = np.maximum(np.abs(want), np.abs(have))
        with np.errstate(invalid="ignore"):
            difference = np.where(largest == 0, 0, np.abs(want - have) / np.where(largest == 0, 1, largest))
        self.max_rel_err = float(np.max(difference[np.isfinite(difference)], initial=0))


def _put(name: str, module: ModuleType) -> ModuleType:
    parent, _, child = name.rpartition(".")
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


def _stand_in(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(__path__=[], **members)
    return _put(name, made)


genlm = _stand_in("genlm")
for theirs, ours in OURS.items():
    _stand_in(theirs, __getattr__=partial(getattr, import_module(ours)))
# The module itself, since a test replaces a function in it.
tokens = _put("genlm.backend.tokenization.vocab", import_module("wordbound.lm.tokens"))
_stand_in(
    "genlm.backend.tokenization.bytes",
    ByteVocabError=CompileError,
    ByteDecoderError=ValueError,
    check_byte_decoder=None,
    get_byte_vocab=tokens.get_byte_vocab,
)
if find_spec("arsenal") is None:
    _stand_in("arsenal")
    _stand_in("arsenal.maths", compare=compare)
# Their reference engine is asked for when the tests are collected, and takes seconds that nothing here needs.
sys.modules["vllm"] = None  # type: ignore[assignment]
