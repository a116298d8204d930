"""schemas/openapi.yaml is valid OpenAPI, is what the sources say now, and names error codes that the manual explains."""

import re
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from fibatchd import plugin_loader
from fibatchd.cli.openapi import as_yaml
from fibatchd.web.openapi import document, operations

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def described():
    return document(plugin_loader.load())


def test_valid(described):
    assert [error.message for error in OpenAPIV31SpecValidator(described).iter_errors()] == []


def test_the_file_is_up_to_date(described):
    text = (ROOT / "schemas" / "openapi.yaml").read_text(encoding="utf-8")
    assert text == as_yaml(described), "run `make openapi`"


def codes(value):
    """The error codes that some part of the document names."""
    if isinstance(value, dict):
        code = value.get("code")
        yield from code.get("enum", ()) if isinstance(code, dict) else ()
        value = value.values()
    for part in value if not isinstance(value, str | int | float | None) else ():
        yield from codes(part)


def test_its_codes_are_those_of_the_manual(described):
    manual = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    named = {code for code in codes(described) if code is not None}
    assert len(named) > 30
    assert sorted(named - set(re.findall(r"`(\w+)`", manual))) == []


def test_every_operation_is_named_sorted_and_summed_up(described):
    tags = {tag["name"] for tag in described["tags"]}
    for operation, said in operations(described):
        assert said["operationId"], operation
        assert said["summary"], operation
        assert set(said["tags"]) <= tags, operation


def test_nothing_of_the_sources_notation_is_left(described):
    assert "x-always" not in as_yaml(described)
    assert "x-codes" not in as_yaml(described)
