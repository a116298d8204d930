"""Coverage-guided fuzzing of the raw JSON slicer, by atheris: its verdict is the standard library's (with the limits of our own),
its slices are the members, an edit changes what it names and nothing else.

    python tests/hostile/fuzz_rawjson.py -runs=1000000 -max_len=4096      options are libFuzzer's
"""

import sys
from contextlib import suppress
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

with atheris.instrument_imports(include=["fibatchd.rawjson", "fibatchd.jsonspans", "fibatchd.jsonbounds"]):
    from fibatchd import rawjson
    from fibatchd.errors import InvalidJson

from json_texts import is_json_object, lossless


def check(data: bytes) -> None:
    for read in (rawjson.decode, lambda text: rawjson.split_array(text, 3)):
        with suppress(InvalidJson):
            read(data)
    assert rawjson.is_object(data) is is_json_object(data), data
    try:
        members = rawjson.read_object(data)
    except InvalidJson:
        return
    pairs = lossless(data)
    assert {name: lossless(bytes(raw)) for name, raw in members.items()} == dict(pairs), data
    names = [name for name, _ in pairs]
    assert rawjson.duplicate_member(data, members) == next((n for i, n in enumerate(names) if n in names[:i]), None), (
        data
    )
    if "a" in members:
        edited = lossless(rawjson.replace_member(data, "a", b'"new"'))
        assert edited == [(name, lossless(b'"new"') if name == "a" else value) for name, value in pairs], data


def main() -> None:
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
