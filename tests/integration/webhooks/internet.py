"""A little Internet: public addresses lead to receivers of the test's, and whoever looks up a name behind the judge's back
is told a private address, as a rebinding attacker would."""

import socket

import trio

PUBLIC = "93.184.215.14"
OTHER = "93.184.215.15"
PUBLIC_V6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"


class Internet(trio.abc.SocketFactory, trio.abc.HostnameResolver):
    """`routes` say where an address leads to: the local port of a receiver. `connects` are the addresses that were called,
    `lookups` the names that somebody resolved by way of trio."""

    def __init__(self):
        self.routes = {}
        self.connects = []
        self.lookups = []

    def socket(self, family=socket.AF_INET, type=socket.SOCK_STREAM, proto=0):  # noqa: A002 - trio's own name
        # Every address leads to 127.0.0.1 in the end, so every socket is one of IPv4.
        made = trio.socket.from_stdlib_socket(socket.socket(socket.AF_INET, type, proto))
        connect = made.connect

        async def led(address):
            host, port = address[:2]
            self.connects.append((host, port))
            if host not in self.routes:
                raise ConnectionRefusedError(f"nothing at {host}")
            await connect(("127.0.0.1", self.routes[host]))

        made.connect = led
        return made

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002 - trio's own name
        self.lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


def internet():
    """Have all connections that are made from now on, until this run of trio ends, go by one. Call it inside the run."""
    net = Internet()
    trio.socket.set_custom_socket_factory(net)
    trio.socket.set_custom_hostname_resolver(net)
    return net


class Names:
    """A resolver whose answers are given: one a call, the last for ever. `asked` counts the calls."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, host):
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
