"""How one request is run against a model's upstreams: the same for a batch's requests and for interactive calls.

An `Endpoint` knows one path of the API (its checks, its translation, where its usage stands); `execute` runs one attempt.
"""
