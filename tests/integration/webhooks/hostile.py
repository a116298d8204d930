"""Hostile URLs and what a client is told of each. The whole corpus is judged by tests/unit/webhooks."""

EXAMPLES = [
    ("http://hooks.example.com/", "url: must begin with https://"),
    ("https://user:secret@hooks.example.com/", "url: must not hold a user name or password"),
    ("https://hooks.example.com:25/", "url: port 25 is not allowed"),
    ("https://10.1.2.3/", "url: the host is a private address; webhooks go to public addresses only"),
    ("https://127.0.0.1:8443/", "url: the host is a loopback address"),
    ("https://169.254.169.254/latest/", "url: the host is a link-local address"),
    ("https://[::1]/", "url: the host is a loopback address"),
    ("https://[::ffff:10.0.0.1]/", "url: the host is an IPv6 address that stands for an IPv4 address"),
    ("https://0x7f.1/", "url: an IPv4 address must be four decimal numbers"),
    ("https://localhost./", "url: the host is a name of a local network"),
    ("https://１２７.０.０.１/", "url: the host is a loopback address"),
    ("https://metadata.google.internal/", "url: the host is a name of a local network"),
    ("https://\ud800.example.com/", "url: the host is no name that DNS could have"),
    ("", "url: not an address such as https://host/path"),
    ("https://hooks.example.com/" + "x" * 3000, "url: longer than 2048 characters"),
]
