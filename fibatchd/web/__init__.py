"""The HTTP API, on Quart, behind guards that make the server fit for a network.

app.py        all of it put together            server.py, listeners.py  accepting, serving, draining
auth.py       who calls                         access.py    what stands before a call that spends something
batches.py, results.py, interactive.py, models.py, health.py             the core's routes
inline.py, intake.py  a batch with its requests in the call, and how any batch is stored
render.py, errors.py  answers in OpenAI's shapes, and errors in each API's own
guards/       time-outs, bounds and framing below the app
"""
