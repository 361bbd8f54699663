"""What the tests of offline runs share."""

from collections.abc import Callable
from typing import Any

import pytest

from deployments.offline.config import OfflineConfig

MakeConfig = Callable[..., OfflineConfig]


@pytest.fixture
def make_config() -> MakeConfig:
    """Makes a configuration; keyword arguments go into the block ``offline``, ``settings`` beside it."""

    def make(settings: dict[str, Any] | None = None, **offline: Any) -> OfflineConfig:
        return OfflineConfig.load({"model_name": "/models/toy", **(settings or {}), "offline": offline}, {})

    return make
