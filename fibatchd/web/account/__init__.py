"""What an account's user asks of batches of every kind at once: docs/account-api.md.

routes     `/v1/account`, `/v1/usage`, and the routes below as one blueprint
batches    the list and one batch; `waiting` tells what a batch waits for
progress   throughput, latency, forecast
requests   the table of a batch's requests
rerun      what did not succeed, again
render     values as these routes write them
"""
