from typing import Any

import pytest

from vocab.vllm_plugin.fork import Fork


@pytest.mark.parametrize("fork", [Fork(), Fork("a"), Fork("a", "b", ("c", "d")), Fork(release=("c",))])
def test_what_is_said_arrives(fork: Fork) -> None:
    assert Fork.parse(fork.to_extra_args()["kv_transfer_params"]) == fork


@pytest.mark.parametrize("params", [None, "text", {}, {"do_remote_decode": True}, {"wordbound": None}])
def test_other_parameters_say_nothing(params: Any) -> None:
    assert Fork.parse(params) is None


def test_what_is_no_name_is_ignored() -> None:
    said = {"keep": 3, "parent": "", "release": ["a", 4, "", None, ["b"], "c"]}
    assert Fork.parse({"wordbound": said}) == Fork(release=("a", "c"))
    assert Fork.parse({"wordbound": {"release": "abc"}}) == Fork()
