"""Arbitrary bytes as a file, through the whole server: never a 500, never a hang, never a lost line."""

import json

import pytest
import trio
from api import chat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from site_files import open_site

names = st.text(min_size=1, max_size=4).filter(lambda name: "\0" not in name)
good = st.builds(lambda name: json.dumps(chat(name)).encode(), names)
strange = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda name, url: json.dumps(chat(name) | {"url": url}).encode(), names, st.text(max_size=5)),
    st.builds(lambda name, body: json.dumps(chat(name) | {"body": body}).encode(), names, st.dictionaries(st.text(max_size=5), st.none())),
)  # fmt: skip
ends = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \t\r\n"])
start = st.sampled_from([b"", b"\xef\xbb\xbf", b"\n"])
files = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda start, lines: start + b"".join(map(b"".join, lines)), start, st.lists(st.tuples(good, ends), max_size=5)),
    st.builds(lambda start, lines: start + b"".join(map(b"".join, lines)), start, st.lists(st.tuples(good | strange, ends), max_size=6)),
)  # fmt: skip


def lines_of(content: bytes) -> dict[int, bytes]:
    """The lines that are not blank, by their numbers."""
    lines = enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
    return {number: line for number, line in lines if line.strip(b" \t\r")}


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=files)
async def test_any_bytes(tmp_path_factory, content):
    with trio.fail_after(60):
        async with open_site(tmp_path_factory.mktemp("bytes")) as site:
            file = await site.upload(content)
            assert (await site.content(file["id"])).content == content
            batch = await site.validated(content)
            lines = lines_of(content)
            if batch["status"] == "in_progress":
                assert batch["request_counts"]["total"] == len(lines) > 0
                await site.run(batch["id"])
                await site.work()
                output = await site.lines((await site.get(batch["id"]))["output_file_id"])
                assert [line["custom_id"] for line in output] == [
                    json.loads(line)["custom_id"] for line in lines.values()
                ]
            else:
                assert batch["status"] == "failed"
                problems = batch["errors"]["data"]
                assert problems
                assert {problem["line"] for problem in problems} - {None} <= set(lines)
                assert bool(lines) != (problems[0]["code"] == "empty_file")
