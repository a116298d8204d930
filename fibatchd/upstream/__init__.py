"""The way to the model servers: which of them is tried, the HTTP/1.1 that is spoken to it, and what its answer means.

fleet.py     the upstreams of all models        balance.py   which one next: load, pauses, pacing, breaker (pure)
client.py    one upstream's client              visit.py     one request there, and what it says of the upstream
outcome.py   an answer, or its absence -> an error code, whether to retry, whether its cost is known (pure)
load_probe.py  the load that upstreams report   echo.py      the built-in demo model

Below the client: origin.py, pool.py, connection.py, timekeeper.py, parser.py, coding.py, answer.py.
"""
