"""The upstreams of all models: their clients and their state, kept in step with the configuration."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fibatchd.config import Config, Upstream
from fibatchd.metrics import Distribution, distributions
from fibatchd.upstream.balance import Replica
from fibatchd.upstream.client import UpstreamClient
from fibatchd.upstream.echo import Echo
from fibatchd.upstream.interface import Client

LONG_VALUE = 8
"""Characters from which on a configured header value is taken for a secret."""


@dataclass(slots=True)
class Member:
    """One upstream of a model: what reaches it, and how it does."""

    upstream: Upstream
    client: Client
    replica: Replica
    key_refused_at: float = -math.inf
    """When it was last logged that it refuses our key, by trio's clock."""
    seconds: Distribution = field(default_factory=Distribution)
    """How long requests took that were answered; shared by all members of its model."""


class Fleet:
    """Members by model id. A reload keeps those whose configuration is the same, with their connections and state."""

    def __init__(self) -> None:
        self._members: dict[str, list[Member]] = {}
        self._retired: list[Member] = []
        self.seconds = distributions()
        """How long answered requests took, by model id. Also of models that are gone: a count never falls."""

    def of(self, model_id: str) -> Sequence[Member]:
        """Return a model's members, () where it is gone."""
        return self._members.get(model_id, ())

    def members(self) -> Iterator[tuple[str, Member]]:
        """Give all members, each with its model's id."""
        for model_id, members in self._members.items():
            for member in members:
                yield model_id, member

    async def update(self, config: Config) -> None:
        """Follow a new configuration; members that are gone finish what runs on them. OSError, and then nothing has changed:
        a file of certificates cannot be used."""
        fresh: dict[str, list[Member]] = {}
        retired: list[Member] = []
        for model in config.models:
            old = list(self._members.get(model.id, ()))
            fresh[model.id] = []
            for upstream in model.upstreams:
                kept = next((member for member in old if member.upstream == upstream), None)
                if kept is None:
                    seconds = self.seconds[model.id,]
                    kept = Member(upstream, client_for(upstream), Replica(upstream), seconds=seconds)
                else:
                    old.remove(kept)
                fresh[model.id].append(kept)
            retired += old
        for model_id, members in self._members.items():
            if model_id not in fresh:
                retired += members
        self._members = fresh
        self._retired += retired
        for member in self._retired:
            await member.client.aclose()
        self._retired = [member for member in self._retired if member.replica.in_flight]

    async def aclose(self) -> None:
        """Close all connections that are idle."""
        for members in (*self._members.values(), self._retired):
            for member in members:
                await member.client.aclose()


def client_for(upstream: Upstream) -> Client:
    """Return a client that speaks to this upstream."""
    if upstream.is_echo:
        return Echo(upstream.delay_s)
    return UpstreamClient(
        upstream.url,
        ca_file=str(upstream.ca_file) if upstream.ca_file else None,
        headers=headers_for(upstream),
        max_connections=upstream.max_connections,
        connect_timeout=upstream.connect_timeout_s,
    )


def headers_for(upstream: Upstream) -> dict[str, str]:
    """Return the headers that an upstream wants with every request, its key in the one that its protocol has for it."""
    headers = dict(upstream.headers)
    if upstream.api_key is None:
        return headers
    if upstream.protocol == "anthropic":
        return {"x-api-key": upstream.api_key} | headers
    return {"authorization": f"Bearer {upstream.api_key}"} | headers


def private_texts(upstream: Upstream) -> list[str]:
    """Return what an upstream may repeat of its configuration though it is no client's business: where it is reached, and
    what its headers say, the key above all. Header values of a few characters are no secrets."""
    values = [value for value in upstream.headers.values() if len(value) >= LONG_VALUE]
    return [text for text in (urlsplit(upstream.url).hostname, upstream.api_key, *values) if text]
