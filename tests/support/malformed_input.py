"""Malformed input, to be sent to every operation."""

import re

AUTHORIZATION_HEADERS = [
    "",
    " ",
    "Bearer",
    "Bearer ",
    "bearer  ",
    "Basic b3duZXI6cGFzc3dvcmQ=",
    "Token abc",
    "Bearer a b c",
    "Bearer " + "x" * 65536,
    "x" * 65536,
    "Bearer \x01\x02\x7f" + "a" * 30,
    "Bearer \xff\xfe\xe9" + "a" * 30,
    "Bearer " + "a" * 30 + ", Bearer " + "b" * 30,
    "Bearer " + "'; drop table tokens; --",
    ":::::",
    "Bearer\t" + "a" * 40,
]

MALFORMED_IDS = [
    "%00",
    "a%00b",
    "%ff%fe",
    "%ED%A0%80",
    "..%2f..",
    "%F0%9F%A6%8A",
    "a" * 5000,
    "0",
    "-1",
    "9" * 40,
    "%27--",
    "%",
]

MALFORMED_QUERIES = [
    "page=%00",
    "page=" + "9" * 500,
    "page=1e3",
    "page=%ff",
    "page=1&page=2",
    "page[]=1",
    "per_page=%D9%A3",  # an Arabic digit
    "per_page=%EF%BC%91",  # a full-width digit
    "&&&===&%&%zz",
    "=".join("a" * 2000),
    "a=" + "b" * 60000,
    "&".join(f"p{number}=1" for number in range(3000)),
    "search=%00",
    "search=%ED%A0%80%ff",
    "search=" + "%25_" * 2000,
    "dir=up",
    "sort=1;drop",
    "purpose=%00",
    "created=%ff",
    "status=nosuch",
    "since=9999999999999999999999",
    "since=-99999-99-99T00:00:00Z",
]

DEEPLY_NESTED_JSON = b'{"a":' * 5000 + b"1" + b"}" * 5000
INVALID_JSON_BODIES = [
    b"{",
    b"[]",
    b'"text"',
    b"1",
    b"true",
    b"\xff\xfe{",
    b"\xef\xbb\xbf{}",
    '{"a": 1}'.encode("utf-16"),
    '{"a": "é"}'.encode("latin-1"),
    b'{"a": "\\ud800"}',
    b'{"a": 1e999}',
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 01}',
    b'{"a": 1} {}',
    b'{"a": 1,}',
    b"{'a': 1}",
    b'{"a": ' + b"9" * 5000 + b"}",
    b'{"name": "a", "name": "b"}',
    b'{"x": {"y": 1, "y": 1}}',
    DEEPLY_NESTED_JSON,
    b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
    b"name=a&public_key=b",
    b"<xml/>",
    b"\x00",
    b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--",
]
"""Bodies that are not valid or not unambiguous JSON objects."""

UNUSUAL_VALUES = [
    None,
    True,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    10**30,
    -(10**30),
    1e308,
    "",
    " ",
    "\0",
    "a\0b",
    "\n",
    "\u202e\ufeff\uffff",
    "🦊" * 300,
    "x" * 100_000,
    "true",
    "1e999",
    "9999-99-99T99:99:99Z",
    "0001-01-01T00:00:00+23:59",
    [],
    [None],
    [[]],
    ["\0"],
    [1] * 5000,
    {},
    {"": None},
    {"a": {"b": ["\0"]}},
]

CONTENT_TYPES = [
    None,
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "application/json; charset=nosuch",
    "application/xml",
    "\xff/\xff",
    "json",
]


def fill_path(path, value):
    """Return the path with `value` in place of every parameter."""
    return re.sub(r"[{<][^}>]+[}>]", value, path)
