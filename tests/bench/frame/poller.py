"""Another client, a process of its own, that asks for a path every few milliseconds and notes how long each answer took."""

import http.client
import json
import subprocess
import sys
import threading
import time


class Poller:
    """Asks for `path` until `stop`."""

    def __init__(self, port: int, key: str, path: str, every_s: float = 0.01) -> None:
        command = [sys.executable, __file__, str(port), key, path, str(every_s)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self) -> list[tuple[float, float]]:
        """Return (when it asked, in Unix time; seconds until the answer was there)."""
        answers, _ = self._process.communicate("stop\n")
        return [(at, took) for at, took in json.loads(answers)]


def percentile(values: list[float], share: float) -> float:
    """Return the value that `share` (0 to 1) of them do not pass."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _poll(port: int, key: str, path: str, every_s: float) -> None:
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    found = []
    while not stopped.wait(every_s):
        at, began = time.time(), time.monotonic()
        connection.request("GET", path, headers={"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        found.append((at, time.monotonic() - began))
    print(json.dumps(found))


if __name__ == "__main__":
    _poll(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))
