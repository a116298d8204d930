"""Daemons for the SDKs' tests, on both stores."""

import pytest
from stand import standing


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request):
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("empty_postgres")


@pytest.fixture
def stand(tmp_path, storage):
    with standing(tmp_path, storage) as running:
        yield running
