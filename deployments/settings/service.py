"""Every knob of the service, on one screen.

A value comes from the environment, else from a secret file, else from an ``.env`` file, else from the arguments in the
YAML file, else from the default here. An unknown key and a bad value are errors that name the key or its variable, the
value and what was expected.
"""

import hashlib
import hmac
import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from deployments.rates import IN_MEMORY
from deployments.settings.batch import BatchSettings
from deployments.settings.compatibility import NOTHING, SERVERS, Compatibility, ServerName
from deployments.settings.keys import DEFAULT_OWNER, Key, digest_of
from deployments.settings.limits import MAX_NGRAM_SIZE, NO_REPEAT_NGRAM_SIZE, Limits
from deployments.settings.sources import PREFIX, SECRET_NAME, YES, Sources, describe
from deployments.settings.sources import SettingsError as SettingsError
from deployments.settings.types import (
    AdapterSources,
    ArtefactStoreUrl,
    Autoscaling,
    CommaSeparated,
    LogLevel,
    NamedKeys,
    Origins,
    RatesUrl,
)

DEMO_TOKEN: Final = "changeme"  # noqa: S105 - the well-known key of the demo, refused everywhere else

_PARALLEL_SIZES: Final = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
"""Arguments of vLLM's engine whose product is its number of workers."""

_NO_LIMITS: Final = Key()


class Settings(BaseSettings):
    """The settings of one application."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        protected_namespaces=(),
        case_sensitive=True,
        env_prefix=PREFIX.lower(),
        env_nested_delimiter="__",
    )

    # The model
    model_name: str = Field(default="google/gemma-3-27b-it", min_length=1)
    """A Hugging Face id, or a local folder that every node has at this path."""
    model_id: str = ""
    """The name that clients use; by default the id, or the folder's last part."""
    trust_remote_code: bool = False
    """Run the code that comes with a model. Only for models whose authors you trust."""
    hf_token: SecretStr | None = None
    """Hugging Face's token, for a model that needs one. What ``HF_TOKEN`` is on a node goes before it there."""
    torch_dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """The dtype of weights and computation. ``auto`` is the model's own on a GPU; on a CPU bfloat16 where the
    processor computes in it (AMX or avx512_bf16), else float32, which takes twice the memory and half the time."""
    engine_kwargs: dict[str, Any] = {}
    """Arguments of vLLM's engine, such as ``tensor_parallel_size``."""
    lora: AdapterSources = {}
    """Adapters (LoRA, in peft's format) by the names that clients use: each a folder that every node has at this path,
    or a Hugging Face id. ``docs/adapters.md`` says which requests have them. Costs the memory of their weights, and on
    a CPU two thirds of the speed where they are not merged."""
    lora_merge: bool = False
    """Merge the one adapter into the model's weights: it costs no speed, and every request has it, in all languages and
    without a list too. Costs a copy of the model in the cache, and the memory of the model while a replica makes it."""
    lora_dir: Path | None = None
    """A folder that all nodes share, for adapters that keys of operators load at run time
    (``POST /v1/load_lora_adapter``): they are copied there, and are loaded again when the service is. The engine has
    LoRA from its start then, for ``engine_kwargs.max_lora_rank`` (by default that of ``lora``, at least 16) and
    ``max_loras`` (by default 4 to 8): memory for so many adapters of that rank, and on a CPU time for every request."""
    keep_search_steps: bool | None = None
    """Keep what the engine computed for a step of a search for the step after it, in up to a quarter of its KV cache
    and for up to 30 s. By default on a CPU only, where four beams take two to eight times as long without: vLLM's
    own prefix caching reuses whole blocks, of at least 32 tokens there and 16 on a GPU."""

    # The front
    secret_token: SecretStr = Field(min_length=1)
    """The key that clients send: ``Authorization: Bearer``, ``X-API-Key`` or ``?token=``. Its name is ``default``."""
    secrets_dir: Path | None = None
    """A folder such as ``/run/secrets``, of files that are named like variables, in any case, and hold their values:
    ``SECRET_TOKEN``, ``WORDBOUND_KEYS`` (as JSON), ``WORDBOUND_BATCH__DATABASE``. Read once, at the start."""
    env_file: Path | None = None
    """A file of variables, one ``NAME=value`` a line, names in any case; by default ``.env`` in the working directory
    of the process that builds the application, where there is one. Other names than those of settings are ignored,
    and named in the log. ``docs/migration.md`` has the names of a transformers server."""
    keys: NamedKeys = {}
    """Further keys and the limits of each, by name: small letters, digits, ``_`` and ``-``, up to 64. Files and batches
    belong to the name, so that a key can be replaced without losing them. ``default`` gives the limits of
    ``secret_token``, whose name that is."""
    rates_url: RatesUrl = IN_MEMORY
    """Where the rates of keys are counted, as the library ``limits`` names it: in the memory of the ingress, or for
    several ingresses in ``async+redis://host:6379`` (``pip install '.[redis]'``). Requests are let through, with
    a warning, while it does not answer."""
    allow_query_token: bool = True
    """Accept the key as ``?token=`` too, for clients that can set no header."""
    prefix_cache_per_key: bool = True
    """Requests of one key never use what the engine keeps of another's prompts: how fast an answer begins would tell
    whether another key sent that beginning. Costs computing a beginning that keys have in common (a system prompt)
    once for each of them, and nothing where there is one key. Turn it off where all keys trust one another."""
    input_overflow: Literal["error", "truncate", "truncate_text"] = "error"
    """What becomes of a conversation that is longer than ``limits.max_input_tokens``: an error, or it is answered
    without its oldest turns, and the answer says how many messages were left out. System messages and the last turn
    stay; with ``truncate_text`` the longest of these is cut at its end where they are too long, and the answer says by
    how many characters. Costs some ten readings of the prompt for such a request, or twenty."""
    compatibility: ServerName = "none"
    """The older server whose clients find limits and shapes as they were (``docs/migration.md``): ``wordlist-server``,
    which has chats and jobs within word lists, or ``llm-serving``, which has ``/generate`` and chats. By default a
    variable that one of them alone has chooses it, and the log says which. What else is set goes before what this
    implies."""
    any_model: bool = False
    """Answer requests for a model that is not here with the one that is, instead of a 404."""
    serve_metrics: Literal["none", "key", "open"] = "none"
    """Answer ``/metrics`` with what Ray's own port of the ingress's node has, for Prometheus: with a key, or
    ``open`` to all, on a loopback address only."""
    keyless: bool = False
    """Take requests without a key as those of ``default``, on a loopback address only. Hosts and web pages are then
    checked as with the demo's key."""
    cors_origins: Origins = ()
    """Web pages that may call the service from a browser, by their origin: ``https://app.example.com``,
    ``http://localhost:3000``; ``*`` for any. By default none. Such a page holds a key, which everyone who opens it can
    read: give it one of its own, with limits (``keys``). With the demo's key a request of any other page is refused."""
    page: bool = True
    """Answer ``/`` with the page for authors, without a key; what it asks the service for needs one."""
    public_docs: bool = False
    """Answer ``/openapi.json`` and ``/docs`` without a key."""
    limits: Limits = Limits()
    """How much one request may ask for."""
    demo: bool = False
    """Allows the key ``changeme``, on a loopback address only. Everyone knows that key, so requests must then come to
    ``localhost`` or a loopback address, and not from web pages that ``cors_origins`` does not name."""

    # Batches
    batch: BatchSettings = BatchSettings()
    """Where batches are stored and how they run."""

    # The vocabulary
    mask_engine: Literal["automaton", "xgrammar"] = "automaton"
    """``xgrammar`` compiles each list, with its N and options, to xgrammar's grammar: the same promise for one to
    three thousand words, slower and with fewer options. A model whose tokenizer has no fast implementation has it in
    any case; its replicas warn of it when they read the tokenizer. Costs one more compile process, of 600 MB."""
    wordlist_dir: Path | None = None
    """Folder of ``<lang>.txt`` files, one word a line in rank order; found before the built-in lists. Where it is named
    and not there, the service does not start. A relative path is taken from the folder of the ``.env`` or secret file
    that names it, or the working directory for a variable; in Serve's YAML file the path is absolute, here and in
    ``secrets_dir`` and ``env_file``."""
    prebuild_langs: CommaSeparated = ()
    """Lists compiled before the service reports ready."""
    prebuild_prefix: int = Field(default=1000, ge=1)
    """The N for which these lists are compiled and replicas warm up: one artefact serves every N up to 20,000, and
    another, made when it is asked for, all the rest."""
    prebuild_word_counts: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Several such N, instead of ``prebuild_prefix``. Costs a step of the engine each at the start, and one more
    artefact for each list where some are beyond 20,000 and some are not."""
    artefact_dir: Path | None = None
    """Where artefacts lie on each node; by default ``artefacts`` in the cache folder of the node's user."""
    artefact_bytes: int = Field(default=4 * 2**30, ge=2**20)
    """Bytes of them on each node; those used longest ago go. Costs disk, and page cache for those in use: 8 MB for
    50,000 words and 262,144 tokens, 10 KB and up for a client's own list."""
    artefact_store: ArtefactStoreUrl | None = None
    """An fsspec URL (``s3://bucket/lists``, ``gs://…``, ``file:///mnt/…``) where artefacts outlive the nodes and which
    clusters may share. Costs an upload per new list; without it a node with an empty disk compiles again."""
    artefact_store_bytes: int = Field(default=64 * 2**30, ge=2**20)
    """Bytes of them behind that URL; those written longest ago go."""
    max_cached_vocabularies: int = Field(default=4096, ge=1)
    """Lists whose artefact is known without asking the compiler. Costs about 2 KB each; set by clients that send a list
    of their own with every request."""
    compile_deadline_s: float = Field(default=120.0, gt=0)
    """A list that takes longer, with the time it waits for its turn, is given up. 337,000 Spanish words take 10 to 30 s
    for 262,144 tokens on one core; ten times as many or a compiler that hangs must not block the rest."""
    compile_memory_bytes: int = Field(default=4 * 2**30, ge=2**28)
    """Memory of a compile process, of which there are two at most; one that exceeds it is killed. 337,000 Spanish words
    take 2 GB. A process that still holds a quarter of it after a list is ended, so that the memory goes back."""
    compile_idle_s: float = Field(default=60.0, gt=0)
    """The process that compiles named lists ends after so long without one. Its start costs 1 to 2 s, its memory
    150 to 700 MB; the one for clients' lists stays."""
    engine_cache_bytes: int = Field(default=2**30, ge=2**20)
    """Memory for lists in each engine process: mask rows, and mapped artefacts, whose pages the processes of a node
    share. 20 MB for 50,000 words and 262,144 tokens."""

    hint: bool = True
    """Tells the model, in one line of the answer's language, to use simple, common words. Costs 20 to 40 tokens of the
    prompt; a request may say otherwise (``vocab.hint``)."""
    no_repeat_ngram_size: int = Field(default=NO_REPEAT_NGRAM_SIZE, ge=0, le=MAX_NGRAM_SIZE)
    """So many tokens in a row never come twice in a text of a vocabulary; a request may say otherwise. 0 for no such
    rule, which leaves refrains and loops; with the mask engine xgrammar there is none."""

    # The graph
    accelerator_type: str | None = None
    """A GPU type that Ray knows, such as ``H100``."""
    placement_bundles: list[dict[str, float]] | None = None
    """Resources of a replica, one bundle a worker; by default one GPU for each of the engine's workers. Where bundles
    have GPUs, as many as ``tensor_parallel_size`` x ``pipeline_parallel_size`` have one, or a part of one."""
    placement_strategy: Literal["PACK", "STRICT_PACK", "SPREAD", "STRICT_SPREAD"] | None = None
    """Ray's, for these bundles. By default ``STRICT_PACK``, all on one node, where up to 8 workers share each layer
    (``tensor_parallel_size``) and no more: they exchange what they computed at every layer, and over a network it takes
    longer than the work. Else ``PACK``."""
    autoscaling: Autoscaling = Autoscaling()
    """How many replicas of the engine there are."""
    max_surge_percent: int = Field(default=0, ge=0, le=100)
    """So many more replicas of the engine may run while an upgrade replaces them: with 100, none is ended before
    another is ready, which needs as many GPUs again meanwhile, and waits for them where there are none. By default they
    are replaced in place, a fifth at a time: where there is one, no engine runs until the new one is loaded."""
    ingress_replicas: int = Field(default=1, ge=1)
    """Processes that take requests. A key's rates are counted in ``rates_url`` where there are several."""
    ingress_resources: dict[str, float] = {}
    """Custom resources that pin the ingresses to nodes, such as those without GPUs."""
    vocabulary_resources: dict[str, float] = {}
    """Custom resources that pin the vocabulary deployment to a node."""
    max_sequences: int = Field(default=128, ge=1)
    """Sequences that a replica's engine works on at once for interactive requests, at most its ``max_num_seqs``: ``n``,
    beams and candidates count one each. Costs KV cache, and time for each token of the others."""
    max_key_share: float = Field(default=0.75, gt=0, le=1)
    """The part of these sequences that a key may hold, where there are several keys and it has no ``max_sequences`` of
    its own, so that another's request begins at once. Costs a key the rest of an engine that nobody else uses."""
    max_queued_requests: int = Field(default=256, ge=0)
    """Requests that wait in each replica for that; one more is refused with 503, which says when to come back."""
    max_queue_s: float = Field(default=30.0, gt=0)
    """One that has waited so long is refused too, and at once if it would wait for half of it by what the last requests
    took. Clients give up after about a minute without a first token."""
    max_answer_s: float = Field(default=600.0, gt=0)
    """An answer that takes longer, from its turn in the engine on, is ended with an error: so long do OpenAI's clients
    wait. Costs a sequence of the engine until then."""
    drain_s: float = Field(default=60.0, ge=0)
    """A replica that is replaced, scaled down or ended with the service lets its requests finish for so long; a stream
    that takes longer ends with an error. Costs the resources of a replica meanwhile; longer than an answer usually
    takes. Ray's own is 20 s; for every stream to finish, ``max_answer_s``."""
    health_timeout_s: float = Field(default=30.0, gt=0)
    """A process of the service that says nothing for so long is ended and replaced. Longer than it computes without
    coming back to its event loop, on a machine whose cores are taken."""
    engine_stall_s: float = Field(default=60.0, gt=0)
    """An engine that has requests and makes no step for so long is ended, with its replica, and replaced; after 10 s
    new requests go to other replicas. One that answers others while a request waits is not. Longer than the largest
    step takes: on a processor, reading 2,000 tokens with a model of billions of weights may take minutes. Offline runs
    wait as long as a step takes."""
    replica_env: dict[str, str] = {}
    """Environment variables of the replica and its engine."""
    log_level: LogLevel | None = None
    """By default that of the application's ``logging_config``, which says everything else of Serve's logs too:
    ``{encoding: JSON}``."""

    # Where each setting that was given comes from; the first counts.
    _sources: dict[str, list[str]] = PrivateAttr(default_factory=dict)
    _warnings: list[str] = PrivateAttr(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _fill_in_model_id(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and not values.get("model_id"):
            name = str(values.get("model_name") or cls.model_fields["model_name"].default)
            is_folder = name.startswith(("/", "./", "../", "~"))
            return {**values, "model_id": name.rstrip("/").rsplit("/", 1)[-1] if is_folder else name}
        return values

    @model_validator(mode="before")
    @classmethod
    def _fill_in_defaults(cls, values: Any) -> Any:
        """Fill in what ``compatibility`` and ``keyless`` imply."""
        if not isinstance(values, Mapping):
            return values
        defaults = {**SERVERS.get(str(values.get("compatibility")), NOTHING).settings}
        if str(values.get("keyless")).lower() in YES:
            # Nobody sends it; it separates what keys share.
            defaults["secret_token"] = secrets.token_hex(32)
        return {**defaults, **values}

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Refuse the demo's key, equal keys, and bad combinations of adapters, rates and ingresses."""
        digests = list(self.key_digests.values())
        if self.has_known_key and not self.demo:
            raise ValueError(
                f"secret_token: {DEMO_TOKEN!r} is the demo's key, which everyone knows: set SECRET_TOKEN to a key of "
                "your own, such as that of `openssl rand -hex 32`, or demo: true (WORDBOUND_DEMO=true) on a loopback "
                "address"
            )
        if len(set(digests)) < len(digests):
            raise ValueError("keys: expected keys that differ from each other and from secret_token")
        if self.model_id in self.lora:
            raise ValueError(f"lora: {self.model_id!r} is the model's own name: give the adapter another one")
        if self.lora_merge and len(self.lora) != 1:
            raise ValueError(f"lora_merge: expected one adapter in lora to merge, and there are {len(self.lora)}")
        self._check_workers()
        has_rates = any(key.has_rates for key in self.keys.values())
        if has_rates and self.ingress_replicas > 1 and self.rates_url == IN_MEMORY:
            raise ValueError(
                "rates_url: expected a store that the ingresses share, such as async+redis://host:6379, for keys have "
                f"rates and ingress_replicas={self.ingress_replicas}"
            )
        return self

    def _check_workers(self) -> None:
        """Refuse bundles that do not fit the engine's workers, which vLLM would find minutes later, or wait for."""
        sizes = {name: self.engine_kwargs.get(name) or 1 for name in (*_PARALLEL_SIZES, "data_parallel_size")}
        if wrong := [f"{name}={size!r}" for name, size in sizes.items() if type(size) is not int or size < 1]:
            raise ValueError(f"engine_kwargs: expected whole numbers from 1 on, and there is {', '.join(wrong)}")
        if (engines := sizes.pop("data_parallel_size")) > 1:
            raise ValueError(
                f"engine_kwargs.data_parallel_size={engines}: expected 1, for the engines of a replica would wait for "
                f"the same GPUs; for as many engines, set min_replicas and max_replicas of autoscaling to {engines}"
            )
        num_workers = math.prod(sizes.values())
        shares = [bundle["GPU"] for bundle in self.placement_bundles or () if bundle.get("GPU")]
        if shares and (len(shares) != num_workers or max(shares) > 1):
            product = " x ".join(f"{name}={size}" for name, size in sizes.items())
            raise ValueError(
                f"placement_bundles: expected {num_workers} bundles with a GPU or a part of one ({product}), and there "
                f"are {sum(shares):g} GPUs in {len(shares)} bundles"
            )

    @classmethod
    def load(
        cls, args: Mapping[str, Any], environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Self:
        """Load the settings from YAML arguments, an ``.env`` file, secret files and the environment.

        Where ``environment`` is given, it stands for all of this process's: then no file is read that nothing names.
        ``folder`` is that of the YAML file, for its relative paths; None where it is not known.

        Raises:
            SettingsError: Names each bad key, its value and what was expected.
        """
        sources = Sources(cls, args, environment, folder)
        try:
            settings = cls(_build_sources=(sources.readers, {}))
        except ValidationError as error:
            raise SettingsError(describe(error, sources.names, cls)) from None
        settings._sources, settings._warnings = sources.names, sources.warnings
        return settings

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to log at the start about the variables that were given; no values."""
        return tuple(self._warnings)

    @property
    def compatible(self) -> Compatibility:
        """What the clients of an older server find as it was."""
        return SERVERS[self.compatibility]

    @property
    def prebuilt_counts(self) -> tuple[int, ...]:
        """The N for which the lists of ``prebuild_langs`` are compiled before the service is ready."""
        return self.prebuild_word_counts or (self.prebuild_prefix,)

    @property
    def merged_adapter(self) -> str | None:
        """The adapter that is merged into the model."""
        return next(iter(self.lora)) if self.lora_merge else None

    def is_given(self, key: str) -> bool:
        """Return whether any source gives this setting."""
        return key in self._sources

    def resolved_artefact_dir(self) -> Path:
        """Return the artefact folder on the node of the calling process."""
        return self.artefact_dir or cache_dir() / "artefacts"

    @property
    def key_digests(self) -> dict[str, str]:
        """The SHA-256 of each key, in hexadecimal, by its name."""
        secret = digest_of(self.secret_token.get_secret_value().encode())
        return {name: key.sha256 or secret for name, key in ({DEFAULT_OWNER: Key()} | self.keys).items()}

    @property
    def has_known_key(self) -> bool:
        """Whether the demo's key, which everyone knows, is one of the keys."""
        return digest_of(DEMO_TOKEN.encode()) in self.key_digests.values()

    @property
    def why_open(self) -> str | None:
        """Why anybody who reaches the service may ask, as an error says it; None where a key is needed."""
        if self.keyless:
            return "This service needs no key"
        return "The demo's key is known to everyone" if self.has_known_key else None

    @property
    def opened(self) -> dict[str, str]:
        """The settings that open the service to all who reach it, and what turns each off."""
        opened = {"demo: true": self.demo, "keyless: true": self.keyless}
        closed = {name: name.replace("true", "false") for name, is_open in opened.items() if is_open}
        return {**closed, **({"serve_metrics: open": "serve_metrics: key"} if self.serve_metrics == "open" else {})}

    def key(self, owner: str) -> Key:
        """Return the permissions and limits of the key of that name."""
        return self.keys.get(owner, _NO_LIMITS)

    def cache_salt(self, owner: str) -> str | None:
        """Return the salt that separates a key's prefix cache from others'; None where keys share it.

        No client can guess it.
        """
        if not self.prefix_cache_per_key:
            return None
        secret = self.secret_token.get_secret_value().encode()
        return hmac.new(secret, b"prefix cache of " + owner.encode(), hashlib.sha256).hexdigest()

    @property
    def share_of_key(self) -> float:
        """The part of the engine's sequences that a key without a limit of its own may hold."""
        return self.max_key_share if len(self.key_digests) > 1 else 1.0

    @property
    def max_requests(self) -> int:
        """Interactive requests that run or wait in one replica."""
        return self.max_sequences + self.max_queued_requests

    @property
    def max_batch_lines(self) -> int:
        """Lines of batches that may be with all replicas together."""
        batch = self.batch
        return batch.lines_sent * self.autoscaling.max_replicas if batch.enabled else 0

    def as_text(self) -> str:
        """Return the settings that were given, one a line with its source, secrets hidden."""
        lines = []
        for key, sources in self._sources.items():
            value: Any = self.model_dump(mode="json")
            for part in key.split("."):
                value = value[part]
            if isinstance(value, dict):
                # Engine arguments and environment variables may carry keys too (``HF_TOKEN``).
                value = {name: "**********" if SECRET_NAME.search(name) else one for name, one in value.items()}
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)} ({', over '.join(sources)})")
        return "\n".join(lines)


def cache_dir() -> Path:
    """Return the cache folder, for what can be made again: ``WORDBOUND_CACHE``, else in the user's cache."""
    if named := os.environ.get("WORDBOUND_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wordbound"
