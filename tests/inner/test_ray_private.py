"""What ``ray_private`` uses of Ray is there, so that an upgrade without it fails here and says what."""

import inspect

from ray.llm._internal.serve.core.server.llm_server import LLMServer as Server
from ray.serve.llm.deployment import LLMServer
from vllm.config import StructuredOutputsConfig

from deployments import ray_private
from deployments.replica.engine import configuration
from deployments.settings.service import Settings


def test_rays_engine_has_what_is_read_and_set() -> None:
    settings = Settings.load({"secret_token": "k", "model_name": "some/model"}, {})
    engine = ray_private.VLLMEngine(configuration.engine_config(settings))
    used = {"_engine_client", "_oai_models", "_oai_serving_chat", "_oai_serving_completion"}
    assert used <= vars(engine).keys()


def test_rays_server_starts_its_engine_where_the_replica_replaces_it() -> None:
    assert issubclass(LLMServer, Server)
    assert "self._start_engine()" in inspect.getsource(Server.start)


def test_plain_dicts_become_types_of_vllm() -> None:
    made = ray_private.normalize_engine_kwargs(
        {"structured_outputs_config": {"backend": "xgrammar"}, "max_num_seqs": 8}
    )
    assert isinstance(made["structured_outputs_config"], StructuredOutputsConfig)
    assert made["max_num_seqs"] == 8
