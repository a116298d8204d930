"""A model server that takes its time and next to no CPU, so that a bench measures the daemon and not its stand-in: the
same chat completion for every request, a moment after it has come; or the same stream, which is whole a moment after its
first token.

    python light_model.py DELAY JITTER      prints its port
"""

import asyncio
import random
import re
import sys

BODY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"a short answer"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}'
)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FIRST = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
REST = (
    b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}\n\n'
    b"data: [DONE]\n\n"
)
REST_S = 0.01
LENGTH = re.compile(rb"content-length: (\d+)")


class Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, delay: float, jitter: float) -> None:
        self._delay = delay
        self._jitter = jitter
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if found and len(body) >= int(LENGTH.search(head)[1]):
            self._received = b""
            wait = self._delay * random.uniform(1 - self._jitter, 1 + self._jitter)
            if b'"stream":true' in body:
                self._later(wait, STREAM_HEAD + _chunk(FIRST))
                self._later(wait + REST_S, _chunk(REST) + _chunk(b""))
            else:
                self._later(wait, ANSWER)

    def _later(self, wait: float, data: bytes) -> None:
        asyncio.get_running_loop().call_later(wait, self._send, data)

    def _send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def main(delay: float, jitter: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(delay, jitter), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2])))
