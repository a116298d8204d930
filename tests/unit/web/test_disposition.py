"""Content-Disposition for any file name: nothing of it leaves the quotes, and all of it comes back."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibatchd.web.fixed import disposition

FORM = re.compile(r"""attachment; filename="([ !#-$&-\[\]-~]*)"(; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]*))?""")


@given(filename=st.text())
def test_any_name(filename):
    form = FORM.fullmatch(disposition(filename))
    assert form
    assert filename == (unquote(form[3]) if form[2] else form[1])


@pytest.mark.parametrize(
    ("filename", "header"),
    [
        ("a b.jsonl", 'attachment; filename="a b.jsonl"'),
        ('a"b', "attachment; filename=\"a_b\"; filename*=UTF-8''a%22b"),
        ("a\r\nX: y", "attachment; filename=\"a__X: y\"; filename*=UTF-8''a%0D%0AX%3A%20y"),
        ("\u20ac", "attachment; filename=\"_\"; filename*=UTF-8''%E2%82%AC"),
        ("50%", "attachment; filename=\"50_\"; filename*=UTF-8''50%25"),
    ],
)
def test_examples(filename, header):
    assert disposition(filename) == header
