"""An engine that a program of somebody else's makes with vLLM's own API, in a process of its own, as its worker.

Run as a program, with the model, a grammar reference and the file for what it found: the text under the reference, and
what each process has of this package.
"""

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1 import structured_output
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu_input_batch import InputBatch


def changes(worker: object = None) -> list[str]:
    """Return what of vLLM is no longer its own in the process that runs this, and whether the plugin is loaded."""
    del worker
    found = {
        "plugin": "vocab.vllm_plugin.backend" in sys.modules,
        "backend": structured_output.XgrammarBackend.__module__.startswith("vocab."),
        "sampler": inspect.unwrap(Sampler.forward) is not Sampler.forward,
        "batch": inspect.unwrap(InputBatch.add_request) is not InputBatch.add_request,
    }
    return [name for name, is_changed in found.items() if is_changed]


def main(model: str, reference: str, found: str) -> None:
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}
    engine = LLM(
        model=model,
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=4,
        # A process for the engine and one for its worker, where vLLM has one for both.
        distributed_executor_backend="mp",
        structured_outputs_config={"backend": "xgrammar"},
    )
    params = SamplingParams(
        max_tokens=8, temperature=0.0, structured_outputs=StructuredOutputsParams(grammar=reference)
    )
    [output] = engine.generate(["Tell me a story."], params, use_tqdm=False)
    summary: dict[str, Any] = {
        "text": output.outputs[0].text,
        "worker": engine.collective_rpc(changes)[0],
        "program": changes(),
    }
    Path(found).write_text(json.dumps(summary))


if __name__ == "__main__":
    main(*sys.argv[1:])
