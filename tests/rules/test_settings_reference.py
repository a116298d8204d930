"""docs/configuration.md, the reference of all settings, is what their schemas make of it."""

import importlib.util
from pathlib import Path

GENERATOR = Path(__file__).parents[2] / "docs" / "building" / "configuration.py"


def test_the_page_is_not_stale():
    spec = importlib.util.spec_from_file_location("configuration_page", GENERATOR)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.PAGE.read_text("utf-8") == generator.reference(), "run `make reference`"
