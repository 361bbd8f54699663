"""The kernels are compiled for GPUs without one, as they are launched: a kernel may be interpreted and not compile."""

import subprocess
from pathlib import Path

import pytest

triton = pytest.importorskip("triton", reason="masks on the device need Triton, which is not installed")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from vocab.vllm_plugin.device import kernels  # noqa: E402

TYPES = {
    **dict.fromkeys(("bits", "history", "num_dead", "num_sampled"), "*i32"),
    **dict.fromkeys(("index", "slots", "tokens"), "*i64"),
    **dict.fromkeys(("num_words", "max_history", "stride", "num_tokens"), "i32"),
}
TOOL = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("name", list(kernels.LAUNCHES))
def test_a_kernel_compiles_and_its_registers_do_not_spill(
    name: str, capability: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a Triton warns; no kernel computes with floats.
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    launch = kernels.LAUNCHES[name]
    function, block = getattr(kernels, name), {} if launch.block is None else {"block": launch.block}
    for logits in ("*bf16", "*fp32") if name == "apply_mask" else ("*bf16",):
        types = TYPES | {"logits": logits} | dict.fromkeys(block, "constexpr")
        source = ASTSource(function, {argument: types[argument] for argument in function.arg_names}, block)
        compiled = triton.compile(
            source, target=GPUTarget("cuda", capability, 32), options={"num_warps": launch.num_warps}
        )
        assert compiled.metadata.shared <= 48 * 1024
        if TOOL.exists():
            (tmp_path / "kernel").write_bytes(compiled.asm["cubin"])
            usage = subprocess.run(
                [TOOL, "-res-usage", tmp_path / "kernel"], capture_output=True, text=True, check=True
            )
            assert " STACK:0 " in usage.stdout and " LOCAL:0 " in usage.stdout, usage.stdout
