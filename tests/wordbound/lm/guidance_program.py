"""Programs for guidance, on our model and on its own engine: ``guidance_program MODEL``. Its last line is JSON."""

import json
import sys
import warnings
from typing import Any

from guidance import gen, models, select
from transformers import AutoModelForCausalLM, AutoTokenizer

from wordbound.lm import load_model_by_name
from wordbound.lm.bridges.guidance import gen_words, guidance_model


def form(model: Any) -> dict[str, str]:
    """The text and what was captured of a program at temperature 0."""
    model += "A form.\nName: " + gen("name", stop="\n", max_tokens=6, temperature=0)
    model += "\nColour: " + select(["red", "blue", "green"], name="colour")
    model += "\nYear: " + gen("year", regex="(19|20)[0-9]{2}", temperature=0)
    return {"text": str(model), **{name: model[name] for name in ("name", "colour", "year")}}


def main() -> None:
    warnings.simplefilter("ignore")
    with load_model_by_name(sys.argv[1], "transformers") as lm:
        ours = form(guidance_model(lm))
        own = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype="float32")
        theirs = form(models.Transformers(own, AutoTokenizer.from_pretrained(sys.argv[1]), echo=False))
        story = guidance_model(lm) + "Tell me a story.\n\n" + gen_words("en", 500, name="story", max_tokens=200)
    print(json.dumps({"ours": ours, "theirs": theirs, "story": story["story"]}))


if __name__ == "__main__":
    main()
