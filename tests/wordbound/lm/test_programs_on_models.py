"""Programs on the demo's model with few layers: what tokens report is what transformers computes for the whole text."""

from pathlib import Path
from typing import Any

import pytest
import torch

from wordbound.lm import AsyncLM, WordList, load_model_by_name
from wordbound.lm.programs import Sampling

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

NUM_TEXTS = 25


@pytest.mark.parametrize("constraint", ["free", "list"])
async def test_details_are_those_of_one_forward_pass_over_the_text(shallow_path: Path, constraint: str) -> None:
    with load_model_by_name(str(shallow_path), "transformers") as model:
        words = WordList("en", 1000, model)
        options: dict[str, Any] = {"vocab": words} if constraint == "list" else {}
        for seed in range(NUM_TEXTS):
            prompt = model.tokenizer(f"Story {seed}. Once")["input_ids"]
            run = model.run(prompt, max_tokens=16, sampling=Sampling(seed=seed), top_k=5, **options)
            async for _ in run:
                pass
            rows = _rows_of(model, prompt + run.token_ids)[len(prompt) - 1 :]
            state = words.start
            for row, token in zip(rows, run.tokens, strict=False):
                assert token.prob == pytest.approx(float(row[token.token_id]), abs=1e-3)
                likeliest = row.topk(5)
                for one, prob in zip(token.top_k, likeliest.values.tolist(), strict=False):
                    assert one.prob == pytest.approx(prob, abs=1e-3)
                if constraint == "list":
                    allowed = words.mask(state)
                    assert all(one.is_masked for one in token.top_k if not allowed[one.token_id])
                    state = words.next(state, token.token_id)
                else:
                    assert not any(one.is_masked for one in token.top_k)


def _rows_of(model: AsyncLM, ids: list[int]) -> torch.Tensor:
    """The probabilities after each prefix, by transformers itself."""
    with torch.no_grad():
        logits = model.model(torch.tensor([ids])).logits[0]  # type: ignore[attr-defined]  # of AsyncTransformer
    return torch.softmax(logits.float(), -1)
