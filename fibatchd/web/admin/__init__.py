"""The operator's API, `/v1/admin/…`: docs/admin-api.md. Nothing here shows what a user sent or got.

routes      all routes as one blueprint, for administrators only
models      models, upstreams, queues, daemons; draining
accounts    accounts, keys, tiers
usage       what was spent
changes     one line in the log for each change
"""
