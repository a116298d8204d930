"""What the configuration says, as frozen values: everybody reads these, nobody sees TOML.

The defaults stand here; schemas/config.schema.json and config/fibatchd.example.toml repeat them for people, and a test
holds the three together. Units: names ending in `_s` are seconds, in `_bytes` bytes; money is whole pico-USD
(see fibatchd/money.py). Secrets are kept out of `repr`, for a configuration may end up in a log line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Protocol = Literal["openai", "anthropic"]

CHAT_COMPLETIONS = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """[server]: the listener, its limits, and where the daemon keeps its things."""

    listen: tuple[str, ...] = ("127.0.0.1:8787",)
    """`host:port`, `[v6]:port`, `:port`, `unix:/path`, or `fd://[NAME]` for sockets handed over by systemd."""
    public_url: str | None = None
    """Where clients reach this server, without a slash at the end; None: the address that the client used."""
    data_dir: Path = Path("fibatchd-data")
    drain_s: float = 60
    max_buffered_body_bytes: int = 64 * 2**20
    """All create bodies being received together; beyond it a create is answered 503."""
    max_failed_keys_per_minute: int = 60
    """Calls from one address with a key that nobody has; beyond it they are answered 429. 0: no limit."""
    header_timeout_s: float = 10
    keep_alive_s: float = 75
    tls_cert: Path | None = None
    tls_key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()
    """IP addresses and networks whose `Forwarded` and `X-Forwarded-*` count; `unix:` stands for unix-socket peers."""
    plugin_dir: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """[storage]: the one database that holds everything."""

    url: str = field(default="sqlite:fibatchd.db", repr=False)
    """`sqlite:PATH` (relative to the data directory) or `postgresql://…`."""
    password_file: Path | None = None
    """Holds the PostgreSQL password, so that it need not stand in the URL."""
    min_free_bytes: int = 2**30
    """Below this much free disk, creates and uploads are refused and claims stop; 0 switches the check off."""
    pool_size: int = 10
    """PostgreSQL connections of this daemon, at most."""
    statement_timeout_s: float = 30
    """PostgreSQL gives a statement up after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """[metrics]: the Prometheus page, on a listener of its own."""

    listen: str = "127.0.0.1:9464"
    """As in `Server.listen`; empty: no metrics page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """[log]: what is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    """`auto`: console on a terminal, JSON otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """[batches]: who may create batches, their limits, retries and retention."""

    enabled: bool = True
    create_tiers: tuple[str, ...] = ("internal", "admin")
    max_requests: int = 50_000
    max_body_bytes: int = 32 * 2**20
    """A create request's body, and an input file."""
    max_line_bytes: int = 4 * 2**20
    max_result_bytes: int = 4 * 2**20
    max_unfinished_batches: int = 10
    max_unfinished_requests: int = 100_000
    completion_window_s: int = 86_400
    """Of inline batches; the other kinds always have 24 hours."""
    retention_s: int = 7 * 86_400
    input_file_retention_s: int = 30 * 86_400
    max_file_storage_bytes: int = 512 * 2**20
    max_uploads_per_hour: int = 60
    max_attempts: int = 8
    retry_base_s: float = 2
    retry_factor: float = 2
    retry_cap_s: float = 300
    retry_after_cap_s: float = 600
    """The longest `Retry-After` of an upstream that is honoured; a longer one counts as this."""
    idempotency_retention_s: int = 86_400
    """How long an Idempotency-Key is remembered after its batch ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """[tiers.NAME]: what an account of this tier may use."""

    name: str
    batch_concurrency: int = 8
    """Batch requests of one account that run at once in this process."""
    interactive_concurrency: int | None = None
    """Interactive requests of one account at once in this process; None: no limit."""
    daily_quota: int | None = None
    """Pico-USD per account and UTC day; None: no quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model's tokens cost, in pico-USD per token."""

    input: int
    cached_input: int
    """The input price where the file gives none."""
    output: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """[models.capabilities]: what a model's route carries beyond the least common denominator."""

    images: bool = False
    top_k: bool = False
    """A chat-completions upstream of this model understands `top_k`, as vLLM, SGLang and llama.cpp do."""
    assistant_prefill: bool = False
    """A final assistant message is continued rather than answered."""
    max_stop_sequences: int = 4
    max_inputs: int = 2048
    """Inputs of one embedding request."""
    max_input_tokens: int | None = None
    """Tokens of one embedding input, checked where the client sends token ids; None: left to the upstream."""
    max_dimensions: int | None = None
    """Largest `dimensions` of an embedding request; 0: it takes no `dimensions`; None: left to the upstream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """[[models.upstreams]]: one server (replica) that runs a model."""

    url: str
    """`http://`, `https://` or `http+unix://`, without a slash at the end; or `echo:`, the built-in demo model."""
    protocol: Protocol = "openai"
    endpoints: tuple[str, ...]
    """What it serves itself, by default what the model does; the model's other endpoints are translated."""
    model: str
    """The upstream's own name for the model; the model's id where the file gives none."""
    api_key: str | None = field(default=None, repr=False)
    """Read from `api_key_env` or `api_key_file` when the configuration is loaded."""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    timeout_s: float = 600
    """One attempt, from its first byte sent to the last received."""
    connect_timeout_s: float = 10
    max_connections: int = 1024
    weight: float = 1
    """Its share of the model's requests, relative to the other upstreams."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    ca_file: Path | None = None
    """PEM certificates to trust in addition to the system's."""
    metrics_url: str | None = None
    """The Prometheus page that tells the upstream's load; None: not asked."""
    delay_s: float = 0
    """Time that the `echo:` model takes for an answer."""

    @property
    def is_echo(self) -> bool:
        """Whether this is the built-in demo model rather than a server."""
        return self.url == "echo:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """[[models]]: a model under its public name, and the upstreams that run it."""

    id: str
    aliases: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = (CHAT_COMPLETIONS,)
    tiers: tuple[str, ...] | None = None
    """Tiers that may use it; None: all. To the others it does not exist."""
    concurrency: int = 8
    """Batch requests at once, over all daemons on one database."""
    capacity: int | None = None
    """All requests, interactive ones included, that its upstreams take well; None: batch work yields to nothing."""
    reserve: int = 0
    """Part of `capacity` that batch work leaves free for interactive requests to come."""
    drain: bool = False
    """Unavailable: nothing new is accepted and what is queued waits."""
    price: Price | None = None
    """None: its tokens cost nothing."""
    capabilities: Capabilities = Capabilities()
    upstreams: tuple[Upstream, ...]

    def is_open_to(self, tier: str) -> bool:
        """Whether accounts of this tier may use the model."""
        return self.tiers is None or tier in self.tiers


def _default_tiers() -> Mapping[str, Tier]:
    concurrency = {"free": 8, "pro": 16, "internal": 64, "admin": 64}
    return MappingProxyType({name: Tier(name=name, batch_concurrency=n) for name, n in concurrency.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration; a SIGHUP replaces it by another one."""

    server: Server = Server()
    storage: Storage = Storage()
    metrics: Metrics = Metrics()
    log: Log = Log()
    extensions: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """[extensions]: what the file switches on or off; see `is_on`."""
    batches: Batches = Batches()
    tiers: Mapping[str, Tier] = field(default_factory=_default_tiers)
    models: tuple[Model, ...] = ()
    plugin_tables: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """One table for each plugin that contributes one, as the file has it; empty where the file has none."""
    _by_name: Mapping[str, Model] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {name: model for model in self.models for name in (model.id, *model.aliases)}
        object.__setattr__(self, "_by_name", by_name)

    def is_on(self, extension: str) -> bool:
        """Whether the extension is switched on; one that the file does not mention is off."""
        return self.extensions.get(extension, False)

    def find_model(self, name: str) -> Model | None:
        """The model with this id or alias."""
        return self._by_name.get(name)
