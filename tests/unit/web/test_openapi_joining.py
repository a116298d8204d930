"""Fragments of the API's description: how they are joined, what is put in, and what an app serves in their terms."""

import types

import pluggy
import pytest
import structlog
from quart import Quart

from fibatchd import hookspecs
from fibatchd.hookspecs import hookimpl
from fibatchd.plugin_loader import GROUP, Plugins
from fibatchd.web.openapi import document, served
from fibatchd.web.openapi.completing import Always, complete
from fibatchd.web.openapi.joining import Clash, Operation, join, operations


def plugins_of(**fragments):
    """Plugins of which each has nothing but a fragment, by its name."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    for name, fragment in fragments.items():
        module = types.ModuleType(name)
        module.fibatchd_openapi = hookimpl(lambda fragment=fragment: fragment)
        manager.register(module, name)
    return Plugins(manager)


class TestJoining:
    def test_objects_by_member_arrays_end_to_end(self):
        whole = {"a": {"b": [1], "c": {}}}
        join(whole, {"a": {"b": [2], "d": 3}, "e": []})
        assert whole == {"a": {"b": [1, 2], "c": {}, "d": 3}, "e": []}

    def test_nothing_of_the_fragment_is_held(self):
        whole, fragment = {}, {"a": {"b": [1]}}
        join(whole, fragment)
        join(whole, {"a": {"b": [2]}})
        assert fragment == {"a": {"b": [1]}}

    @pytest.mark.parametrize(
        ("fragment", "where"),
        [
            ({"a": {"b/c": 2}}, "#/a/b~1c is said twice"),
            ({"a": {"b/c": 1}}, "#/a/b~1c is said twice"),
            ({"a": []}, "#/a is said twice"),
            ({"a": {200: {}}}, "#/a: the key 200 is not a string; put it in quotes"),
        ],
    )
    def test_clashes(self, fragment, where):
        with pytest.raises(Clash, match=where):
            join({"a": {"b/c": 1}}, fragment)


class TestCompleting:
    ALWAYS = Always("Error", {"401": "NoKey", "500": "Fault"}, {"any": ["id"], "409": ["retry"]})

    def completed(self, **operation):
        common = {
            "NoKey": {"description": "no key", "x-codes": ["missing"]},
            "Fault": {"description": "a fault", "x-codes": [None]},
            "Busy": {"description": "busy", "x-codes": ["busy"]},
        }
        whole = {"paths": {"/x": {"get": operation}}, "components": {"responses": common}}
        complete(whole, {Operation("GET", "/x"): self.ALWAYS})
        return whole["paths"]["/x"]["get"]["responses"], common

    @staticmethod
    def codes(answer):
        schema = answer["content"]["application/json"]["schema"]
        assert schema["$ref"] == "#/components/schemas/Error"
        return schema["properties"]["error"]["properties"]["code"]["enum"]

    def test_answers_of_any_call_are_there(self):
        answers, common = self.completed(responses={"200": {"description": "fine"}})
        assert list(answers) == ["200", "401", "500"]
        assert answers["401"] == {"$ref": "#/components/responses/NoKey"}
        assert self.codes(common["NoKey"]) == ["missing"]
        assert answers["200"]["headers"] == {"id": {"$ref": "#/components/headers/id"}}

    def test_own_codes_come_to_those_of_any_call(self):
        answers, _ = self.completed(responses={"401": {"x-codes": ["worse"]}})
        assert self.codes(answers["401"]) == ["missing", "worse"]
        assert answers["401"]["description"] == "no key"

    def test_a_named_answer_has_the_headers_of_its_status(self):
        _, common = self.completed(responses={"409": {"$ref": "#/components/responses/Busy"}})
        assert set(common["Busy"]["headers"]) == {"id", "retry"}
        assert self.codes(common["Busy"]) == ["busy"]

    def test_without_a_key_there_is_none_to_be_wrong(self):
        answers, _ = self.completed(security=[], responses={"200": {"description": "fine"}})
        assert list(answers) == ["200", "500"]


class TestDocument:
    def test_schema_files_are_embedded_whole(self):
        schema = document(plugins_of())["components"]["schemas"]["ChatCompletionRequest"]
        assert schema["properties"]["messages"]["items"] == {
            "$ref": "#/components/schemas/ChatCompletionRequest/$defs/message"
        }
        assert "$id" not in schema

    def test_a_plugins_routes(self):
        whole = document(plugins_of(some={"paths": {"/v1/some": {"get": {"responses": {"200": {"description": ""}}}}}}))
        answers = whole["paths"]["/v1/some"]["get"]["responses"]
        assert answers["401"] == {"$ref": "#/components/responses/Unauthorized"}
        assert set(answers["200"]["headers"]) == {"x-request-id", "request-id"}

    def test_what_is_nothing_for_clients_is_left_out(self):
        page, call = {"x-internal": True, "summary": "A page."}, {"x-internal": False}
        whole = document(plugins_of(some={"paths": {"/page": {"get": page}, "/both": {"get": page, "post": call}}}))
        assert "/page" not in whole["paths"]
        assert whole["paths"]["/both"].keys() == {"post"}

    def test_what_clashes_is_left_out_and_told(self):
        good = {"paths": {"/v1/good": {"get": {}}}}
        with structlog.testing.capture_logs() as lines:
            whole = document(plugins_of(bad={"info": {"title": "mine"}, "paths": {"/v1/bad": {}}}, good=good))
        assert ("/v1/good" in whole["paths"], "/v1/bad" in whole["paths"]) == (True, False)
        assert whole["info"]["title"] == "fibatchd"
        assert [(line["plugin"], line["reason"]) for line in lines] == [("bad", "#/info/title is said twice")]


def test_what_an_app_serves():
    app = Quart("app", static_folder=None)
    app.route("/a/<name>", methods=["GET", "PUT"], endpoint="a")(lambda name: "")
    app.route("/b/<path:rest>/c", methods=["DELETE"], endpoint="b")(lambda rest: "")
    assert served(app.url_map) == {("GET", "/a/{name}"), ("PUT", "/a/{name}"), ("DELETE", "/b/{rest}/c")}


def test_operations_are_told_from_what_stands_beside_them():
    whole = {"paths": {"/a": {"parameters": [], "summary": "", "get": {"x": 1}, "put": {}}}}
    assert dict(operations(whole)) == {("GET", "/a"): {"x": 1}, ("PUT", "/a"): {}}
