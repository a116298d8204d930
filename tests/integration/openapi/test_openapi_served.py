"""`/openapi.json`: for everyone, with the plugins that are loaded, and sent again only when it is another one."""

from pathlib import Path

from api import serving
from openapi_spec_validator import OpenAPIV31SpecValidator

from fibatchd import plugin_loader

EXAMPLES = Path(__file__).parents[2] / "example_plugin"


async def test_without_a_key(api):
    answer = await api.http.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json()["openapi"].startswith("3.1")
    assert "/v1/batches" in answer.json()["paths"]


async def test_a_client_that_has_it_is_not_sent_it_again(api):
    first = await api.http.get("/openapi.json")
    again = await api.http.get("/openapi.json", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = await api.http.get("/openapi.json", headers={"if-none-match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


async def test_a_plugin_of_somebody_elses_is_in_it(tmp_path):
    rerank = plugin_loader.load(EXAMPLES).manager.get_plugin("rerank")
    async with serving(tmp_path, plugins={"rerank": rerank}) as api:
        described = (await api.http.get("/openapi.json")).json()
    assert described["paths"]["/v1/rerank"]["post"]["responses"]["401"]
    assert [error.message for error in OpenAPIV31SpecValidator(described).iter_errors()] == []
