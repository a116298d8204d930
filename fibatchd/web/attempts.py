"""How often something may fail for one client: a token bucket for each address."""

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import trio


@dataclass(slots=True)
class Bucket:
    """`left` tokens at the time `at`; it holds `size`, and gains `per_s` a second."""

    size: float
    per_s: float
    left: float
    at: float

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token, 0 where there is one."""
        self.left = min(self.size, self.left + (now - self.at) * self.per_s)
        self.at = now
        return 0.0 if self.left >= 1 else (1 - self.left) / self.per_s

    def take(self, now: float) -> float:
        """Take a token; where there is none, return the seconds until there will be."""
        if wait := self.wait(now):
            return wait
        self.left -= 1
        return 0.0


class Attempts:
    """Failed attempts, in memory: a daemon counts its own. Bounded, however many addresses there are. `size` and `per_s`
    are those of each address's bucket."""

    MOST_ADDRESSES = 10_000

    def __init__(self, size: float, per_s: float) -> None:
        self._size, self._per_s = size, per_s
        self._by_address: OrderedDict[str, Bucket] = OrderedDict()

    def wait(self, address: str | None) -> float:
        """Return the seconds until an attempt from this address may be made, 0 where it may."""
        now = trio.current_time()
        return self._bucket(network_of(address), now).wait(now)

    def take(self, address: str | None) -> float:
        """Take a token for an attempt from this address; where there is none, return the seconds until there will be."""
        now = trio.current_time()
        return self._bucket(network_of(address), now).take(now)

    def give_back(self, address: str | None) -> None:
        """Put the token of an attempt back that did not fail."""
        if (own := self._by_address.get(network_of(address))) is not None:
            own.left += 1

    def _bucket(self, network: str, now: float) -> Bucket:
        bucket = self._by_address.setdefault(network, Bucket(self._size, self._per_s, self._size, now))
        self._by_address.move_to_end(network)
        if len(self._by_address) > self.MOST_ADDRESSES:
            self._by_address.popitem(last=False)
        return bucket


def network_of(address: str | None) -> str:
    """Return what one client can be expected to have: an IPv4 address, a /64 of IPv6; what is neither stands for itself."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return address or ""
    if isinstance(parsed, IPv6Address):
        return parsed.ipv4_mapped.compressed if parsed.ipv4_mapped else parsed.exploded[:19]
    return parsed.compressed
