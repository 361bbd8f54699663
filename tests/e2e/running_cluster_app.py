"""An application that gets its settings as the service does, and tells what its processes see."""

import os
from collections.abc import Mapping
from typing import Any

from ray import serve

from deployments.process_setup import set_up_process
from deployments.settings.service import Settings


class Teller:
    def __init__(self, settings: Settings) -> None:
        set_up_process(settings)
        self._key = settings.secret_token.get_secret_value()

    async def __call__(self, _: Any) -> dict[str, str | None]:
        return {"key": self._key, "hf_token": os.environ.get("HF_TOKEN")}


def build(args: Mapping[str, Any]) -> serve.Application:
    result: Any = serve.deployment(Teller, ray_actor_options={"num_cpus": 0})
    application: serve.Application = result.bind(Settings.load(args))
    return application
