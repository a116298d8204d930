"""Reads a metrics page as Prometheus would."""

import httpx2
from prometheus_client.parser import text_string_to_metric_families


def samples(text):
    """Every sample of a page: {(name, ((label, value), …)): number}."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


class Scrape:
    """One page; `page("name", label=value)` is the sum of the samples that have these labels."""

    def __init__(self, port):
        answer = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
        answer.raise_for_status()
        self.text = answer.text
        self.content_type = answer.headers["content-type"]
        self.samples = samples(answer.text)

    def __call__(self, name, **labels):
        name = f"fibatchd_{name}"
        matching = [
            value
            for (found, pairs), value in self.samples.items()
            if found == name and labels.items() <= dict(pairs).items()
        ]
        assert matching, f"no sample {name} {labels}"
        return sum(matching)
