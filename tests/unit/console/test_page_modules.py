"""The page's modules that compute: JSON laid out as text, and the look through a file of requests. Run by Node."""

import json
import re
import subprocess
from importlib import resources

import pytest

PAGE = resources.files("fibatchd_plugins.console.page")

TEXTS = [
    "{}", "[]", "0", '""', '"a\\"b\\\\"', '{"a":{}}', '{"a":[],"b":[[]]}', '[{"x":[1,2,{"y":null}]},true,-1.5e+300]',
    '{"n":12345678901234567890,"f":1.000,"d":0.1e-7}', '{"a":1,"a":2}', '{ "s" : "{[,:]}" , "t" : "\\u2028\\ud800" }',
    '{"body":"x","x":{"body":{"answer":1}},"answer":{"content":"\\\\\\"}"}}', '{"":"","\\u0061":"é\\n"}',
]  # fmt: skip


@pytest.fixture(scope="module")
def run(needs, tmp_path_factory):
    """A function that runs a script with a module of the page, and returns the JSON that it prints."""
    folder = tmp_path_factory.mktemp("page")

    def run(module, script, given):
        (folder / f"{module}.mjs").write_text(PAGE.joinpath(f"{module}.js").read_text())
        text = f"import * as module from './{module}.mjs';\nconst given = {json.dumps(given)};\n{script}"
        (folder / "script.mjs").write_text(text)
        done = subprocess.run([needs("node"), "script.mjs"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def bare(text):
    """A JSON text without the white space between its tokens."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|\s+', r"\1", text)


def test_laid_out_json_has_every_token(run):
    shown = run("json_text", "console.log(JSON.stringify(given.map((text) => module.pretty(text))));", TEXTS)
    for text, pretty in zip(TEXTS, shown, strict=True):
        assert bare(pretty) == bare(text)
        # Depth by depth as other programs lay it out, digits and doubled keys aside.
        if json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False) == text:
            assert pretty == json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def test_long_texts_are_laid_out_no_further_than_asked(run):
    script = """
const text = JSON.stringify({ image: "é\\\"".repeat(2e6) });
console.log(JSON.stringify([module.members(text).image.length, module.pretty(`[${"1,".repeat(1e5)}1]`, 100).length]));
"""
    image, shown = run("json_text", script, None)
    assert image == 2_000_000 * 3 + 2
    assert 100 < shown < 120


def test_members_are_the_text_as_it_stands(run):
    objects = [text for text in TEXTS if text.startswith("{")]
    found = run("json_text", "console.log(JSON.stringify(given.map(module.members)));", objects)
    for text, members in zip(objects, found, strict=True):
        assert list(members) == list(json.loads(text))
        assert {key: json.loads(value) for key, value in members.items()} == json.loads(text)
    assert found[objects.index('{"n":12345678901234567890,"f":1.000,"d":0.1e-7}')]["n"] == "12345678901234567890"


LOOK = """
const told = [];
const file = new Blob([typeof given === "string" ? given : Uint8Array.from(given)]);
await module.look(file, (found) => told.push(found), new AbortController().signal);
const found = told.at(-1);
console.log(JSON.stringify({ ...found, models: [...found.models], urls: [...found.urls] }));
"""


def line(custom_id="a", **changes):
    return json.dumps({"custom_id": custom_id, "url": "/v1/chat/completions", "body": {"model": "m"}} | changes)


def test_a_good_file(run):
    found = run("jsonl", LOOK, "\ufeff" + line("a") + "\r\n\n" + line("é", body={"model": "n"}))
    assert (found["requests"], found["problems"], found["done"], found["share"]) == (2, [], True, 1)
    assert (found["models"], found["urls"]) == ([["m", 1], ["n", 1]], [["/v1/chat/completions", 2]])


def test_problems_have_the_lines_of_an_editor(run):
    lines = [line(), "", "{", "[]", line(), line("b", body=None), line("c", body={}), line(""), "null"]
    found = run("jsonl", LOOK, "\n".join(lines) + "\n")
    assert [(problem["line"], problem["message"].split()[0]) for problem in found["problems"]] == [
        (3, "Not"), (4, "Not"), (5, "custom_id"), (6, "body"), (7, "body.model"), (8, "custom_id"), (9, "Not"),
    ]  # fmt: skip
    assert found["requests"] == 8


@pytest.mark.parametrize(("given", "message"), [("", "no requests"), ("\n\n", "no requests"), ([0xFF, 0x0A], "UTF-8")])
def test_a_file_that_is_none(run, given, message):
    (problem,) = run("jsonl", LOOK, given)["problems"]
    assert message in problem["message"]


def test_many_problems_are_counted(run):
    found = run("jsonl", LOOK, "x\n" * 250)
    assert (len(found["problems"]), found["more"], found["requests"]) == (100, 150, 250)


def test_a_call_keeps_its_key_until_its_answer_is_known(run):
    script = """
const once = new module.Once();
const sent = [];
const answer = (value) => async (headers) => {
  sent.push(headers["Idempotency-Key"]);
  if (value instanceof Error) throw value;
  return value;
};
const status = (number) => Object.assign(new Error(), { status: number });
for (const value of [new Error("lost"), status(502), status(429), "made", new Error("lost")])
  await once.send(answer(value)).catch(() => null);
once.forget();
await once.send(answer("made"));
console.log(JSON.stringify(sent));
"""
    sent = run("once", script, None)
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in sent)
    assert [sent.index(key) for key in sent] == [0, 0, 0, 3, 4, 5]
