"""Malformed configurations, each with exactly what is said about it."""

import pytest

from fibatchd.config import load, parse
from fibatchd.errors import ConfigError

MODEL = '[[models]]\nid = "m"\n'
UPSTREAM = '[[models.upstreams]]\nurl = "http://h/v1"\n'
PRICE = 'is not a price in USD below 100000, a decimal in quotes such as "0.10" with at most six decimals (money is never a float)'
SECONDS = "is not a number of seconds from 0 to 315360000"
BYTES = "is not a whole number of bytes from 1 to 1099511627776"
LISTEN = "is not an address to listen on: write host:port, [v6]:port, unix:/path or fd://"
URL = "is not an upstream's address: write http://…, https://…, http+unix://%2Fpath%2Fto.sock/… or echo:"
NAME = "is not a model's name: up to 255 visible ASCII characters, not auto and not beginning with auto-"

MALFORMED = [
    # syntax
    ("[server\n", ["line 1, column 8: not TOML: Expected ']' at the end of a table declaration"]),
    ("[log]\nlevel = \n", ["line 2, column 9: not TOML: Invalid value"]),
    ("[log]\nlevel = 'info'\nlevel = 'error'\n", ["line 3, column 16: not TOML: Cannot overwrite a value"]),
    ("[log]\nlevel = 'info", ["the file: not TOML: Expected \"'\" (at end of document)"]),
    # unknown names
    ("[batches]\nmax_request = 1\n", ["batches.max_request: unknown setting; did you mean `max_requests`?"]),
    ("[batch]\n", ["batch: unknown table; did you mean `batches`?"]),
    ("[[model]]\nid = 'm'\n", ["model: unknown table; did you mean `models`?"]),
    ("[log]\nzzz = 1\n", ["log.zzz: unknown setting; known are: level, format"]),
    (
        f"{MODEL}{UPSTREAM}keyfile = 'x'\n[models.upstreams.capabilities]\n",
        [
            "models[0].upstreams[0].capabilities: unknown table; known are: url, protocol, endpoints, model, api_key_env, api_key_file, headers, "
            "timeout_s, connect_timeout_s, max_connections, weight, requests_per_minute, tokens_per_minute, ca_file, metrics_url, delay_s",
            "models[0].upstreams[0].keyfile: unknown setting; did you mean `api_key_file`?",
        ],
    ),
    ("[extensions]\nfilez = true\n", ["extensions.filez: no plugin has this extension; did you mean `files`?"]),
    ("[tiers.'Not a name']\n", ["tiers.\"Not a name\": \"Not a name\" is not a tier's name: up to 64 lower-case letters, digits, _ and -"]),
    # types and ranges
    ("[server]\ndrain_s = '60'\n", [f'server.drain_s: "60" {SECONDS}']),
    ("[server]\ndrain_s = -1\n", [f"server.drain_s: -1 {SECONDS}"]),
    ("[server]\ndrain_s = nan\n", ["server.drain_s: nan is not a finite number"]),
    ("[server]\ndrain_s = 2020-01-01\n", [f"server.drain_s: 2020-01-01 {SECONDS}"]),
    ("[server]\nkeep_alive_s = 0\n", ["server.keep_alive_s: 0 is not a number of seconds above 0, up to 315360000"]),
    ("[server]\nlisten = '127.0.0.1:1'\n", ['server.listen: "127.0.0.1:1" is not an array of 1 or more items']),
    ("[server]\nlisten = []\n", ["server.listen: [] is not an array of 1 or more items"]),
    ("[server]\nlisten = ['a:1', 'a:1']\n", ["server.listen: holds an item twice"]),
    ("server = 5\n", ["server: 5 is not a table"]),
    ("[models]\nid = 'm'\n", ["models: a table is not an array"]),
    ("[batches]\nenabled = 1\n", ["batches.enabled: 1 is not true or false"]),
    ("[batches]\nmax_requests = true\n", ["batches.max_requests: true is not a whole number from 1 to 1000000000"]),
    ("[batches]\nmax_requests = 8.0\n", ["batches.max_requests: 8.0 is not a whole number from 1 to 1000000000"]),
    ("[batches]\nmax_body_bytes = 99999999999999999999\n", [f"batches.max_body_bytes: 99999999999999999999 {BYTES}"]),
    ("[extensions]\nfiles = 'on'\n", ['extensions.files: "on" is not true or false']),
    ("[log]\nlevel = 'inof'\n", ['log.level: "inof" is not one of "debug", "info", "warning", "error"']),
    ("[log]\nlevel = [1]\n", ['log.level: an array is not one of "debug", "info", "warning", "error"']),
    ("[server]\npublic_url = 'http://h\\u000A'\n".replace("'", '"'), ["server.public_url: holds a control character, such as a line break"]),
    ('server = "${\\r"\n',
     ["server: ${\\r is not a variable: write ${NAME}, of letters, digits and _",
      "server: holds a control character, such as a line break",
      'server: "${\\r" is not a table']),
    # addresses
    ("[server]\nlisten = ['8787']\n", [f'server.listen[0]: "8787" {LISTEN}']),
    ("[server]\nlisten = ['h:70000']\n", [f'server.listen[0]: "h:70000" {LISTEN}']),
    ("[server]\nlisten = ['h:1', '[::g]:1', '::1:80', 'unix:x', 'unix:/', ':', 'fd://a b']\n",
        [f'server.listen[{i}]: "{address}" {LISTEN}' for i, address in enumerate(["h:1", "[::g]:1", "::1:80", "unix:x", "unix:/", ":", "fd://a b"]) if i]),
    ("[metrics]\nlisten = 'localhost'\n", [f'metrics.listen: "localhost" {LISTEN}']),
    ("[server]\npublic_url = 'batch.example.com'\n", ['server.public_url: "batch.example.com" is not the address of a site: write https://host']),
    ("[server]\npublic_url = 'https://h/?q'\n", ['server.public_url: "https://h/?q" is not the address of a site: write https://host']),
    ("[server]\ntrusted_proxies = ['::1', 'proxy']\n", ['server.trusted_proxies[1]: "proxy" is not an IP address, a network such as 10.0.0.0/8, or unix:']),
    ("[storage]\nurl = 'mysql://u:secret@h/d'\n", ["storage.url: the value is not the address of a store: write sqlite:PATH or postgresql://…"]),
    ("[storage]\nurl = 'sqlite:///x.db'\n", ["storage.url: an SQLite file is named without // in front: write sqlite:fibatchd.db or sqlite:/a/path"]),
    ("[server]\nmax_buffered_body_bytes = 1000\n[batches]\nmax_body_bytes = 1001\n",
        ["batches.max_body_bytes: 1001 is above server.max_buffered_body_bytes, which is 1000"]),
    ("[batches]\nmax_body_bytes = 67108865\n", ["batches.max_body_bytes: 67108865 is above server.max_buffered_body_bytes, which is 67108864"]),
    # names that must exist, or exist once
    ("[batches]\ncreate_tiers = ['fre']\n", ['batches.create_tiers[0]: "fre" is not a tier; did you mean `free`?']),
    (f"{MODEL}tiers = ['free', 'gold']\n{UPSTREAM}", ['models[0].tiers[1]: "gold" is not a tier; known are: admin, free, internal, pro']),
    (f"{MODEL}tiers = []\n{UPSTREAM}", ["models[0].tiers: [] is not an array of 1 or more items"]),
    (f"{MODEL}{UPSTREAM}{MODEL}{UPSTREAM}", ['models[1].id: "m" is taken already, by models[0].id']),
    (f"{MODEL}aliases = ['n', 'm']\n{UPSTREAM}[[models]]\nid = 'n'\n{UPSTREAM}",
        ['models[0].aliases[1]: "m" is taken already, by models[0].id', 'models[1].id: "n" is taken already, by models[0].aliases[0]']),
    (f"[[models]]\nid = 'auto'\naliases = ['auto-fast', 'a b', 'autobahn']\n{UPSTREAM}",
        [f'models[0].aliases[0]: "auto-fast" {NAME}', f'models[0].aliases[1]: "a b" {NAME}', f'models[0].id: "auto" {NAME}']),
    (f"{MODEL}endpoints = ['/v1/chat/completion']\n{UPSTREAM}",
        ['models[0].endpoints[0]: "/v1/chat/completion" is not an endpoint of any plugin; did you mean `/v1/chat/completions`?']),
    (f"{MODEL}endpoints = ['chat']\n{UPSTREAM}", ['models[0].endpoints[0]: "chat" is not an endpoint\'s path such as /v1/chat/completions']),
    # models
    ("[[models]]\n", ["models[0].id: is missing", "models[0].upstreams: is missing"]),
    (f"{MODEL}upstreams = []\n", ["models[0].upstreams: [] is not an array of 1 or more items"]),
    (f"{MODEL}reserve = 2\n{UPSTREAM}", ["models[0].reserve: has no effect without capacity"]),
    (f"{MODEL}reserve = 8\ncapacity = 8\n{UPSTREAM}", ["models[0].reserve: 8 leaves batch work nothing of capacity, which is 8"]),
    (f"{MODEL}price_usd_per_million = {{input = 0.1, output = '1e3', cached_input = '0.0000001'}}\n{UPSTREAM}",
        [f'models[0].price_usd_per_million.cached_input: "0.0000001" {PRICE}', f"models[0].price_usd_per_million.input: 0.1 {PRICE}",
         f'models[0].price_usd_per_million.output: "1e3" {PRICE}']),
    (f"{MODEL}price_usd_per_million = {{output = 1}}\n{UPSTREAM}", ["models[0].price_usd_per_million.input: is missing"]),
    (f"{MODEL}{UPSTREAM}[models.capabilities]\nimage = true\n", ["models[0].capabilities.image: unknown setting; did you mean `images`?"]),
    # upstreams
    (f"{MODEL}[[models.upstreams]]\n", ["models[0].upstreams[0].url: is missing"]),
    (f"{MODEL}[[models.upstreams]]\nurl = 'h:8000'\n", [f'models[0].upstreams[0].url: "h:8000" {URL}']),
    (f"{MODEL}[[models.upstreams]]\nurl = 'http://h:x/v1'\n", [f'models[0].upstreams[0].url: "http://h:x/v1" {URL}']),
    (f"{MODEL}[[models.upstreams]]\nurl = 'http://hö/v1'\n", [f'models[0].upstreams[0].url: "http://hö/v1" {URL}']),
    (f"{MODEL}[[models.upstreams]]\nurl = 'ftp://user:secret@h/v1'\n", [f"models[0].upstreams[0].url: {URL}"]),
    (f"{MODEL}[[models.upstreams]]\nurl = 'http://h'\n", ['models[0].upstreams[0].url: "http://h" does not end in /v1, as an openai upstream\'s address does']),
    (f"{MODEL}[[models.upstreams]]\nurl = 'http://h/v1?k=1'\n", ['models[0].upstreams[0].url: "http://h/v1?k=1" has a query or fragment, and paths are put behind it']),
    (f"{MODEL}[[models.upstreams]]\nurl = 'http://u:secret@h/v1'\n", ["models[0].upstreams[0].url: holds credentials: put the key into api_key_env or api_key_file"]),
    (f"{MODEL}endpoints = ['/v1/messages']\n[[models.upstreams]]\nprotocol = 'anthropic'\nurl = 'http://h/v1'\n",
        ['models[0].upstreams[0].url: "http://h/v1" ends in /v1, which is added to an anthropic upstream\'s address']),
    (f"{MODEL}[[models.upstreams]]\nprotocol = 'anthropic'\nurl = 'http://h'\n",
        ['models[0].upstreams[0].endpoints: an anthropic upstream does not serve /v1/chat/completions: write endpoints = ["/v1/messages"]']),
    (f"{MODEL}[[models.upstreams]]\nprotocol = 'anthropic'\nurl = 'echo:'\nendpoints = ['/v1/messages']\n",
        ["models[0].upstreams[0].url: the built-in echo: upstream speaks the openai protocol"]),
    (f"{MODEL}{UPSTREAM}protocol = 'grpc'\n", ['models[0].upstreams[0].protocol: "grpc" is not one of "openai", "anthropic"']),
    (f"{MODEL}{UPSTREAM}delay_s = 1\n", ["models[0].upstreams[0].delay_s: only the built-in echo: upstream takes a delay"]),
    (f"{MODEL}{UPSTREAM}api_key_env = 'UNSET'\n", ['models[0].upstreams[0].api_key_env: "UNSET" is not set in the environment']),
    (f"{MODEL}{UPSTREAM}api_key_env = 'BLANK'\n", ['models[0].upstreams[0].api_key_env: "BLANK" does not hold a key, which is visible ASCII characters on one line']),
    (f"{MODEL}{UPSTREAM}api_key_env = 'TWO LINES'\n", ['models[0].upstreams[0].api_key_env: "TWO LINES" is not the name of an environment variable']),
    (f"{MODEL}{UPSTREAM}api_key_env = 'SET'\napi_key_file = '/no/such'\n",
        ["models[0].upstreams[0].api_key_file: goes without api_key_env: name one source of the key"]),
    (f"{MODEL}{UPSTREAM}api_key_file = '/no/such'\n", ['models[0].upstreams[0].api_key_file: "/no/such" cannot be read: No such file or directory']),
    (f"{MODEL}{UPSTREAM}headers = {{Host = 'x', 'a b' = 'y', X-Secret = 'ä', X-Number = 1}}\n",
        ["models[0].upstreams[0].headers.Host: is written by the HTTP client and cannot be set",
         "models[0].upstreams[0].headers.X-Number: the value is not a header's value: visible ASCII characters and spaces",
         "models[0].upstreams[0].headers.X-Secret: the value is not a header's value: visible ASCII characters and spaces",
         "models[0].upstreams[0].headers.\"a b\": \"a b\" is not a header's name"]),
    (f"{MODEL}{UPSTREAM}metrics_url = '/metrics'\n", ['models[0].upstreams[0].metrics_url: "/metrics" is not an address: write http://host:port/metrics']),
    (f"{MODEL}{UPSTREAM}metrics_url = 'http://u:secret@h/metrics'\n", ["models[0].upstreams[0].metrics_url: holds credentials, which are not sent"]),
    (f"{MODEL}{UPSTREAM}ca_file = '/no/such'\n",
        ["models[0].upstreams[0].ca_file: goes with an https:// url only", 'models[0].upstreams[0].ca_file: "/no/such" cannot be read: No such file or directory']),
    (f"{MODEL}[[models.upstreams]]\nurl = 'https://h/v1'\nca_file = '/dev/null'\n", ['models[0].upstreams[0].ca_file: "/dev/null" holds no PEM certificates']),
    # settings that go together, and files
    ("[server]\ntls_cert = '/no/such'\n",
        ['server.tls_cert: "/no/such" cannot be read: No such file or directory', "server.tls_key: is missing: `tls_cert` needs it"]),
    ("[server]\ntls_cert = '/no/such'\ntls_key = '/dev/null'\n", ['server.tls_cert: "/no/such" cannot be read: No such file or directory']),
    ("[server]\ntls_cert = '/dev/null'\ntls_key = '/dev/null'\n",
        ['server.tls_cert: "/dev/null" is not a PEM certificate chain, or tls_key is not its key (in PEM, without a password)']),
    ("[server]\nplugin_dir = '/no/such'\n", ['server.plugin_dir: "/no/such" is not a folder']),
    ("[storage]\npassword_file = '/dev/null'\n", ["storage.password_file: SQLite has no password; it goes with postgresql://…"]),
    ("[batches]\nretry_cap_s = 1\n", ["batches.retry_base_s: 2 is above retry_cap_s, which is 1"]),
    # the environment
    ("[server]\ndata_dir = '${UNSET}/a'\n", ["server.data_dir: the environment variable UNSET is not set"]),
    ("[server]\ndata_dir = '${UNSET}/${ALSO_UNSET}'\n",
        ["server.data_dir: the environment variable UNSET is not set", "server.data_dir: the environment variable ALSO_UNSET is not set"]),
    ("[server]\ndata_dir = '${SET:-x}${'\n",
        ["server.data_dir: ${SET:-x} is not a variable: write ${NAME}, of letters, digits and _",
         "server.data_dir: ${ is not a variable: write ${NAME}, of letters, digits and _"]),
    ("[server]\nlisten = ['${SET}']\n", [f'server.listen[0]: "${{SET}}" {LISTEN}']),
    ("[server]\npublic_url = '${TWO_LINES}'\n", ["server.public_url: holds a control character, such as a line break"]),
    # a plugin's table
    ("[hooks]\nallow = 1\nretry = 'x'\nword = 'secret'\n",
        ["hooks.allow: 1 is not true or false", "hooks.retry: \"x\" is not a number of at least 0", "hooks.word: the value is not a string of 10 or more characters"]),
    ("[hooks]\nalow = true\n", ["hooks.alow: unknown setting; did you mean `allow`?"]),
    ("hooks = 3\n", ["hooks: 3 is not a table"]),
]  # fmt: skip

HOOKS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "allow": {"type": "boolean"},
        "retry": {"$ref": "#/$defs/amount"},
        "word": {"type": "string", "minLength": 10, "writeOnly": True},
    },
    "$defs": {"amount": {"type": "number", "minimum": 0}},
}
ENVIRON = {"SET": "the-secret", "BLANK": " ", "TWO_LINES": "http://a\nb"}


def problems_of(text, **options):
    with pytest.raises(ConfigError) as caught:
        parse(
            text,
            plugin_schemas={"hooks": HOOKS},
            known_extensions={"files"},
            known_endpoints={"/v1/chat/completions", "/v1/messages"},
            environ=ENVIRON,
            **options,
        )
    return caught.value.problems


@pytest.mark.parametrize(("text", "expected"), MALFORMED, ids=[text for text, _ in MALFORMED])
def test_malformed(text, expected):
    problems = problems_of(text)
    assert problems == expected
    assert not any("\n" in problem or "the-secret" in problem for problem in problems)


def test_all_at_once_in_the_order_of_paths():
    text = "".join(f"[[models]]\nid = 'm{i}'\n[[models.upstreams]]\nurl = 'ftp://{i}'\n" for i in range(12))
    problems = problems_of(f"[log]\nlevel = 'x'\n{text}")
    assert [problem.partition(":")[0] for problem in problems] == [
        "log.level",
        *(f"models[{i}].upstreams[0].url" for i in range(12)),
    ]


def test_a_broken_value_hides_no_other_problem():
    problems = problems_of(
        f"{MODEL}concurrency = 'x'\ntiers = [1, 'gold']\n[[models.upstreams]]\nurl = 5\n[[models.upstreams]]\nurl = 'x'\n"
    )
    assert [problem.partition(":")[0] for problem in problems] == [
        "models[0].concurrency",
        "models[0].tiers[0]",
        "models[0].tiers[1]",
        "models[0].upstreams[0].url",
        "models[0].upstreams[1].url",
    ]


def test_long_values_are_cut():
    (problem,) = problems_of(f"[log]\nlevel = '{'x' * 1000}'\n")
    assert len(problem) < 200


def test_what_is_shown_is_printable():
    (problem,) = problems_of('log."a\\u009b\\u2028b" = 1')
    assert problem == r'log."a\u009b\u2028b": unknown setting; known are: level, format'


def test_deep_nesting_is_no_traceback():
    assert problems_of("x = " + "[" * 100_000) == ["arrays or tables are nested too deeply"]


def test_huge_integer_is_no_traceback():
    (problem,) = problems_of(f"x = {'9' * 5000}")
    assert problem.startswith("the file: not TOML: ")


@pytest.mark.parametrize("setting", ["server.listen = ['127.0.0.1:{}']", "metrics.listen = ':{}'"])
def test_huge_port_is_no_traceback(setting):
    (problem,) = problems_of(setting.format("1" * 5000))
    assert "is not an address to listen on" in problem


def test_unreadable_files(tmp_path):
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# caf\xe9\n")
    for path, problem in [
        (tmp_path / "none.toml", f"{tmp_path}/none.toml cannot be read: No such file or directory"),
        (tmp_path, f"{tmp_path} cannot be read: Is a directory"),
        (latin, f"{latin} is not UTF-8: byte 5 cannot be read"),
    ]:
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert caught.value.problems == [problem]


def test_a_plugins_own_mistakes_are_told():
    with pytest.raises(ConfigError) as caught:
        parse("", plugin_schemas={"server": {}, "hooks": {"type": "bogus"}})
    assert caught.value.problems == [
        "hooks: the schema that a plugin has for this table is not valid: 'bogus' is not valid under any of the given schemas",
        "server: a plugin claims this table, which is the core's",
    ]


def test_a_plugin_may_ask_for_its_table():
    with pytest.raises(ConfigError) as caught:
        parse("", plugin_schemas={"hooks": {"required": ["url"]}})
    assert caught.value.problems == ["hooks.url: is missing"]
