"""Which addresses a webhook may go to: public ones, and nothing else. Pure functions over text.

What is refused are the special-purpose registries of IANA (RFC 6890 and the entries since), and of IPv6 everything
outside the space that is given out (2000::/3). An address that carries an IPv4 address is refused, for where it ends up is
some translator's business; only NAT64's well-known prefix (RFC 6052) is judged by what it carries, because in an
IPv6-only network every IPv4 host is reached so. The tables are our own: `ipaddress.is_global` differs between versions
of Python.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

PRIVATE = "a private address"
LOOPBACK = "a loopback address"
LINK_LOCAL = "a link-local address"
SHARED = "an address of carrier-grade NAT"
MULTICAST = "a multicast address"
RESERVED = "a reserved address"
METADATA = "the address of a metadata service"
CARRIES_IPV4 = "an IPv6 address that stands for an IPv4 address"

_IPV4 = [
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", RESERVED),  # "this network"; 0.0.0.0 reaches the machine itself
        ("10.0.0.0/8", PRIVATE),
        ("100.64.0.0/10", SHARED),
        ("127.0.0.0/8", LOOPBACK),
        ("168.63.129.16/32", METADATA),  # Azure's, in public space
        ("169.254.0.0/16", LINK_LOCAL),  # with the metadata services of most clouds
        ("172.16.0.0/12", PRIVATE),
        ("192.0.0.0/24", RESERVED),  # protocol assignments; Oracle's metadata service is there
        ("192.0.2.0/24", RESERVED),  # documentation
        ("192.88.99.0/24", RESERVED),  # the former 6to4 relays
        ("192.168.0.0/16", PRIVATE),
        ("198.18.0.0/15", RESERVED),  # benchmarking
        ("198.51.100.0/24", RESERVED),  # documentation
        ("203.0.113.0/24", RESERVED),  # documentation
        ("224.0.0.0/4", MULTICAST),
        ("240.0.0.0/4", RESERVED),  # and the broadcast address
    )
]
_NAT64 = IPv6Network("64:ff9b::/96")
_IPV6 = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", RESERVED),
        ("::1/128", LOOPBACK),
        ("::/96", CARRIES_IPV4),  # IPv4-compatible
        ("::ffff:0:0/96", CARRIES_IPV4),  # IPv4-mapped
        ("::ffff:0:0:0/96", CARRIES_IPV4),  # IPv4-translated
        ("64:ff9b:1::/48", CARRIES_IPV4),  # NAT64 of one's own network
        ("2001::/32", CARRIES_IPV4),  # Teredo
        ("2001::/23", RESERVED),  # protocol assignments
        ("2001:db8::/32", RESERVED),  # documentation
        ("2002::/16", CARRIES_IPV4),  # 6to4
        ("3fff::/20", RESERVED),  # documentation
        ("fc00::/7", PRIVATE),
        ("fe80::/10", LINK_LOCAL),
        ("fec0::/10", PRIVATE),  # site-local, as it was
        ("ff00::/8", MULTICAST),
    )
]
_GIVEN_OUT = IPv6Network("2000::/3")
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The upper half of an interface identifier whose lower half is an IPv4 address (RFC 5214, section 6.1)."""


def refusal(address: str) -> str | None:
    """Return what an IP address is that no webhook may go to, such as "a private address"; None for a public one.

    Raises ValueError for a text that is no IP address.
    """
    parsed = ip_address(address)
    return _refusal_v4(parsed) if isinstance(parsed, IPv4Address) else _refusal_v6(parsed)


def _refusal_v4(address: IPv4Address) -> str | None:
    return next((kind for network, kind in _IPV4 if address in network), None)


def _refusal_v6(address: IPv6Address) -> str | None:
    if address in _NAT64:
        return _refusal_v4(IPv4Address(int(address) & 0xFFFF_FFFF))
    for network, kind in _IPV6:
        if address in network:
            return kind
    if address not in _GIVEN_OUT:
        return RESERVED
    return CARRIES_IPV4 if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP else None
