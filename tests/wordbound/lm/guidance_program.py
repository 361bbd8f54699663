"""Programs for guidance, on our model and on plain transformers: ``guidance_program MODEL``. Its last line is JSON."""

import json
import sys
import warnings
from typing import Any

import numpy as np
import torch
from guidance import gen, select
from guidance.models import Model
from guidance.models._engine import Engine, EngineInterpreter
from guidance.models._transformers import TransformersTokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from wordbound.lm import load_model_by_name
from wordbound.lm.bridges.guidance import gen_words, guidance_model


class Plain(Engine):
    """The logits of transformers itself. guidance's own engine of it crops caches as transformers 5 does not allow."""

    def __init__(self, path: str) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        super().__init__(TransformersTokenizer(AutoTokenizer.from_pretrained(path)))

    def get_logits(self, token_ids: list[int], include_all_uncached_tokens: bool = False) -> Any:
        with torch.no_grad():
            logits = self.model(torch.tensor([token_ids])).logits[0]
        return {"logits": logits[-1:].numpy(), "n_tokens": len(token_ids), "n_cached": 0}


def form(model: Any) -> dict[str, str]:
    """The text and what was captured of a program at temperature 0."""
    model += "A form.\nName: " + gen("name", regex="[A-Z][a-z]{2,7}", temperature=0)
    model += "\nColour: " + select(["red", "blue", "green"], name="colour")
    model += "\nYear: " + gen("year", regex="(19|20)[0-9]{2}", temperature=0)
    return {"text": str(model), **{name: model[name] for name in ("name", "colour", "year")}}


def main() -> None:
    warnings.simplefilter("ignore")
    # guidance draws by it.
    np.random.seed(1)
    with load_model_by_name(sys.argv[1], "transformers") as lm:
        ours = form(guidance_model(lm))
        theirs = form(Model(EngineInterpreter(Plain(sys.argv[1])), sampling_params={}, echo=False))
        story = (
            guidance_model(lm)
            + "Tell me a story.\n\n"
            + gen_words("en", 200, name="story", max_tokens=30, temperature=1.0)
        )
    print(json.dumps({"ours": ours, "theirs": theirs, "story": story["story"]}))


if __name__ == "__main__":
    main()
