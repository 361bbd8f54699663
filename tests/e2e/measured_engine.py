"""An engine of its own, in float32, that says what it reports beside its tokens: read by ``test_log_mass``.

Run as a program, with the model, the folder of artefacts and a file of requests; writes one JSON list.
"""

import json
import sys
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams
from vllm.logprobs import FlatLogprobs
from vllm.sampling_params import StructuredOutputsParams


def main(model: str, requests_path: str, results_path: str) -> None:
    requests: list[dict[str, Any]] = json.loads(Path(requests_path).read_text())
    engine = LLM(
        model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=512,
        # Long prompts take several steps, beside others that generate.
        max_num_batched_tokens=64,
        max_num_seqs=16,
        structured_outputs_config={"backend": "xgrammar"},
        disable_log_stats=True,
        seed=0,
    )
    outputs = engine.generate(
        [{"prompt_token_ids": request["prompt"]} for request in requests],
        [sampling_params(request) for request in requests],
        use_tqdm=False,
    )
    Path(results_path).write_text(json.dumps([reported(output.outputs[0]) for output in outputs]))


def sampling_params(request: dict[str, Any]) -> SamplingParams:
    constraint = request["constraint"]
    return SamplingParams(
        max_tokens=request["max_tokens"],
        temperature=request["temperature"],
        seed=request.get("seed"),
        logprobs=request["logprobs"],
        flat_logprobs=True,
        detokenize=False,
        structured_outputs=StructuredOutputsParams(**constraint) if constraint else None,
    )


def reported(completion: Any) -> dict[str, Any]:
    """The tokens, and for each of them the tokens, logprobs and ranks of its position, its own first."""
    logprobs = completion.logprobs
    positions = []
    if isinstance(logprobs, FlatLogprobs):
        for start, end in zip(logprobs.start_indices, logprobs.end_indices, strict=True):
            positions.append(
                {
                    "tokens": logprobs.token_ids[start:end],
                    # JSON knows no minus infinity.
                    "logprobs": [max(value, -1e30) for value in logprobs.logprobs[start:end]],
                    "rank": logprobs.ranks[start],
                }
            )
    return {"tokens": list(completion.token_ids), "positions": positions}


if __name__ == "__main__":
    main(*sys.argv[1:])
