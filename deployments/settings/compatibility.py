"""What the clients of two older servers find as it was: defaults, limits and the shapes of answers, a row for each.

Nothing here opens the service: keys, models, metrics, Host and Origin have settings of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from deployments.settings.limits import Limits

ServerName: TypeAlias = Literal["none", "wordlist-server", "llm-serving"]


@dataclass(frozen=True)
class Compatibility:
    """How requests are filled in and answers written; by default as this service has it.

    Attributes:
        settings: Defaults of settings; what any source gives goes before.
        max_tokens: Of a chat that names no number. Where there is one, a number that is not allowed becomes the next
            larger one that is, or the largest.
        num_beams: Of a chat that names none, where its other fields go with beams.
        temperature: Of a chat without a vocabulary.
        bare_lists: Whether a list named by the flat fields has no adapter, and ``length_penalty`` needs no beams.
        forbids: Whether a missing or wrong key is a 403.
        owned_by: Of the model.
        echoes: Whether the text of ``/generate`` begins with the prompt, where there is no vocabulary.
        whole_jobs: Whether jobs have one set of parameters, and one list or model that is not there, or a file that is
            no list, fails all of a job.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    num_beams: int = 1
    temperature: float | None = None
    bare_lists: bool = False
    forbids: bool = False
    owned_by: str = "wordbound"
    echoes: bool = False
    whole_jobs: bool = False

    def fill_in(self, body: Mapping[str, Any], limits: Limits, tokens: str = "max_tokens") -> dict[str, Any]:
        """Return a body, whose fields are not checked yet, with allowed numbers of tokens and the defaults.

        ``tokens`` is the field of a body that has none.
        """
        filled, names = dict(body), (tokens, "max_completion_tokens")
        if self.max_tokens is None:
            return filled
        if not any(name in filled for name in names):
            filled[tokens] = self.max_tokens
        for name in names:
            number = filled.get(name)
            if isinstance(number, int) and not isinstance(number, bool) and number > 0:
                allowed = sorted(limits.allowed_new_tokens) or [min(number, limits.max_new_tokens)]
                filled[name] = next((one for one in allowed if one >= number), allowed[-1])
        if self.temperature is not None and not any(name.startswith("vocab") for name in filled):
            filled.setdefault("temperature", self.temperature)
        return filled


NOTHING: Final = Compatibility()

SERVERS: Final[Mapping[str, Compatibility]] = {
    "none": NOTHING,
    "wordlist-server": Compatibility(
        settings={"hint": False, "no_repeat_ngram_size": 0, "input_overflow": "truncate_text"},
        max_tokens=512,
        num_beams=10,
        bare_lists=True,
        forbids=True,
        owned_by="owner",
        whole_jobs=True,
    ),
    "llm-serving": Compatibility(max_tokens=50, temperature=1.0, echoes=True),
}
