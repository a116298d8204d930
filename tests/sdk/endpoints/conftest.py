"""A daemon for the OpenAI SDK on embeddings and Responses, on both stores, and a client of it."""

import pytest
from endpoints_stand import standing


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request):
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("empty_postgres")


@pytest.fixture
def stored(tmp_path, storage):
    """The stand on each store."""
    with standing(tmp_path, storage) as running:
        yield running


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    """The stand for what no store has a part in."""
    with standing(tmp_path_factory.mktemp("stand"), "sqlite:fibatchd.db") as running:
        yield running
