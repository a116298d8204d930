"""URLs by which webhook senders have been led astray, by the trick; and names, by what they resolve to."""

SCHEMES = [
    "http://hooks.example.com/", "HTTP://hooks.example.com/", "ftp://hooks.example.com/", "ftps://hooks.example.com/", "file:///etc/passwd",
    "file://localhost/etc/passwd", "gopher://hooks.example.com:6379/_FLUSHALL", "dict://hooks.example.com:11211/stat", "ldap://hooks.example.com/",
    "sftp://hooks.example.com/", "tftp://hooks.example.com/", "jar:https://hooks.example.com!/", "data:text/plain,hello", "javascript:alert(1)",
    "ws://hooks.example.com/", "wss://hooks.example.com/", "unix:///run/docker.sock", "http+unix://%2Frun%2Fdocker.sock/", "https+unix://%2Frun%2Fx/",
    "netdoc:///etc/passwd", "//hooks.example.com/", "hooks.example.com/", "", "https", "https:", "https:/", "https://", "https:///", "https:hooks.example.com",
    "https:/hooks.example.com", "https:///hooks.example.com/", "://hooks.example.com/", "view-source:https://hooks.example.com/",
]  # fmt: skip

CREDENTIALS = [
    "https://user@hooks.example.com/", "https://user:password@hooks.example.com/", "https://:@hooks.example.com/", "https://@hooks.example.com/",
    "https://hooks.example.com@127.0.0.1/", "https://hooks.example.com:443@127.0.0.1/", "https://127.0.0.1@hooks.example.com@127.0.0.1/",
    "https://hooks.example.com%40127.0.0.1/",
]  # fmt: skip

PORTS = [
    "https://hooks.example.com:22/", "https://hooks.example.com:25/", "https://hooks.example.com:80/", "https://hooks.example.com:110/",
    "https://hooks.example.com:465/", "https://hooks.example.com:636/", "https://hooks.example.com:0/", "https://hooks.example.com:65536/",
    "https://hooks.example.com:99999/", "https://hooks.example.com:-1/", "https://hooks.example.com:443x/", "https://hooks.example.com:0x1bb/",
    "https://hooks.example.com:/", "https://hooks.example.com:443:443/", "https://hooks.example.com:４４３/", "https://hooks.example.com:4 43/",
]  # fmt: skip

ODD_TEXTS = [
    "https://hooks.example.com\\@127.0.0.1/", "https://127.0.0.1\\.hooks.example.com/", "https:\\\\hooks.example.com/", "https://hooks.example.com /",
    " https://hooks.example.com/", "https://hooks.example.com/\r\nHost: 127.0.0.1", "https://hooks.example.com/\nx", "https://hooks.example.com/\tx",
    "https://hooks\t.example.com/", "https://127.0.0.1\x00.example.com/", "https://hooks.example.com/\x7f", "https://hooks.example.com/a b",
    "https://hooks.example.com/\u00a0", "https://hooks.example.com/\u2028", "https://hooks.example.com/ü", "https://127.0.0.1#@hooks.example.com/",
    "https://hooks.example.com/#x", "https://hooks.example.com#", "https://127.0.0.1#.example.com/", "https://%31%32%37.0.0.1/", "https://127.0.0.1%2f@x/",
    "https://hooks.example.com%00.evil.example/", "https://hooks.example.com%0d%0a/", "https://hooks..example.com/", "https://.example.com/",
    "https://hooks.example.com../", "https://-hooks.example.com/", "https://hooks-.example.com/", "https://hooks,example.com/", "https://(hooks).example.com/",
    "https://hooks.example.com" + "/x" * 2048, "https://" + "a" * 64 + ".example.com/", "https://" + "a." * 130 + "example.com/", "https://hooks.example.com;@127.0.0.1/",
    "https://[hooks.example.com]/", "https://[::1/", "https://::1]/", "https://[]/", "https://[127.0.0.1]/", "https://*.example.com/", "https://hooks.example.com\u3002\u3002/",
]  # fmt: skip

IPV4 = [
    "https://127.0.0.1/", "https://127.0.0.1:8443/", "https://127.0.0.1./", "https://127.1.2.3/", "https://0.0.0.0/", "https://0.1.2.3/", "https://10.0.0.1/",
    "https://10.255.255.255/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.0.1/", "https://192.168.255.255/", "https://100.64.0.1/",
    "https://100.127.255.255/", "https://169.254.0.1/", "https://192.0.0.1/", "https://192.0.2.1/", "https://198.18.0.1/", "https://198.19.255.255/",
    "https://198.51.100.1/", "https://203.0.113.1/", "https://192.88.99.1/", "https://224.0.0.1/", "https://239.255.255.255/", "https://240.0.0.1/",
    "https://255.255.255.255/",
]  # fmt: skip

METADATA = [
    "https://169.254.169.254/latest/meta-data/", "https://169.254.170.2/v2/credentials/", "https://100.100.100.200/latest/meta-data/",
    "https://192.0.0.192/latest/", "https://168.63.129.16/metadata/", "https://[fd00:ec2::254]/latest/", "https://metadata.google.internal/computeMetadata/v1/",
    "https://metadata/", "https://instance-data/latest/", "https://[fd20:ce::254]/", "https://kubernetes.default.svc.cluster.local/",
]  # fmt: skip

NUMBERS = [
    "https://2130706433/", "https://017700000001/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0177.0.0.1/", "https://127.1/", "https://127.0.1/",
    "https://0/", "https://0x0/", "https://127.0.0.01/", "https://127.0.0.0x1/", "https://00000177.0.0.1/", "https://4294967295/", "https://3232235521/",
    "https://0xA9FEA9FE/", "https://2852039166/", "https://0251.0376.0251.0376/", "https://169.16689662/", "https://256.256.256.256/", "https://1.2.3.4.5/",
    "https://127.0.0.1.1/", "https://340282366920938463463374607431768211455/", "https://example.0x7f/", "https://hooks.example.123/", "https://0x/",
    "https://8.8.8.010/",
]  # fmt: skip

IPV6 = [
    "https://[::1]/", "https://[::]/", "https://[0:0:0:0:0:0:0:1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::ffff:10.0.0.1]/",
    "https://[::ffff:169.254.169.254]/", "https://[::127.0.0.1]/", "https://[::ffff:0:127.0.0.1]/", "https://[64:ff9b::127.0.0.1]/", "https://[64:ff9b::a00:1]/",
    "https://[64:ff9b::a9fe:a9fe]/", "https://[64:ff9b:1::1]/", "https://[2002:7f00:1::]/", "https://[2002:a9fe:a9fe::1]/", "https://[2002:a00:1::1]/",
    "https://[2001::1]/", "https://[2001:0:7f00:1::]/", "https://[2001:db8::1]/", "https://[2001:10::1]/", "https://[2001:20::1]/", "https://[3fff::1]/",
    "https://[fc00::1]/", "https://[fd12:3456:789a::1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[febf::1]/",
    "https://[fec0::1]/", "https://[ff02::1]/", "https://[ff05::1:3]/", "https://[100::1]/", "https://[5f00::1]/", "https://[4000::1]/", "https://[200::1]/",
    "https://[2606:4700::5efe:127.0.0.1]/", "https://[2606:4700::200:5efe:a00:1]/", "https://[::1]:8443/", "https://[1::2::3]/", "https://[0000:0000::ffff:7f00:0001]/",
    "https://[2606:4700::1111%25lo]/",
]  # fmt: skip

NAMES = [
    "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://localhost:8443/", "https://foo.localhost/", "https://localhost.localdomain/",
    "https://printer.local/", "https://nas.local./", "https://db.internal/", "https://router.home.arpa/", "https://intranet/", "https://db/", "https://hidden.onion/",
    "https://LocalHost:443/",
]  # fmt: skip

# What looks like something else until UTS 46 has mapped it.
IDNA = [
    "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "https://１２７.０.０.１/", "https://127。0。0。1/", "https://127．0．0．1/", "https://①②⑦.⓪.⓪.①/", "https://⑯⑨。②⑤④。⑯⑨。②⑤④/", "https://ｌｏｃａｌｈｏｓｔ/",
    "https://𝟏𝟐𝟕.𝟎.𝟎.𝟏/", "https://127.0.0.1\u00ad/", "https://local\u200bhost/", "https://０ｘ７ｆ．1/", "https://hooks.example.com／@127.0.0.1/", "https://\ud800.example.com/",
    "https://hooks.exam\u202eple.com/", "https://２１３０７０６４３３/", "https://foo.ｌｏｃａｌ/", "https://hooks.example.com＠127.0.0.1/", "https://hooks.example.com：22/",
]  # fmt: skip

ALL = [*SCHEMES, *CREDENTIALS, *PORTS, *ODD_TEXTS, *IPV4, *METADATA, *NUMBERS, *IPV6, *NAMES, *IDNA]

RESOLVED = {
    "https://127.0.0.1.nip.io/": ["127.0.0.1"],
    "https://10.0.0.1.sslip.io/": ["10.0.0.1"],
    "https://localtest.me/": ["::1"],
    "https://rebound.example.com/": ["169.254.169.254"],
    "https://half.example.com/": ["93.184.215.14", "10.0.0.1"],
    "https://other-half.example.com/": ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", "fd00::1"],
    "https://mapped.example.com/": ["::ffff:192.168.0.1"],
    "https://nat64.example.com/": ["64:ff9b::a9fe:a9fe"],
    "https://scoped.example.com/": ["fe80::1%eth0"],
    "https://cgnat.example.com:8443/": ["100.64.1.1"],
    "https://multicast.example.com/": ["224.0.0.251"],
    "https://zero.example.com/": ["0.0.0.0"],
}
