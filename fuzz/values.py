"""Values that break programs: numbers, times, texts and paths at and over the edge."""

from __future__ import annotations

import json

NUMBERS = (
    *("0", "-0", "-1", "1", "0.5", "1e-300", "5e-324", "1e300", "-1e300", "1e308", "1e400"),
    *("nan", "NaN", "inf", "-inf", "Infinity", "9e18", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "18446744073709551616", "2147483648"),
    *("1_000", "1,000", "0x10", "1e", "--1", "+1", " 7 ", "٣", "½", "1.0000000000000000001"),
    "9" * 400,
)
TIMES = (
    *("0001-01-01", "9999-12-31", "9999-12-31T23:59:59", "1970-01-01", "0000-00-00"),
    *("2026-02-30", "1900-01-01", "2262-04-12 00:00:00", "-0001-01-01", "now", "today"),
    *("2017-03-12 02:30:00", "2017-10-05T09:00:00+99:99", "2026-01-05T25:00:00Z"),
    *("292277026596-12-04", "1677-09-21T00:12:43Z", "+275760-09-13T00:00:00Z", "253402300800"),
)
DURATIONS = (
    *("0s", "1s", "90s", "1h", "30m", "2d", "1w", "-5m", "1e9h", "1e300d", "1e-300s", "5 parsecs"),
    *("inf", "nan", "1h30", "none", "", "h", "0x1h", "9223372036854775807s"),
)
TEXTS = (
    *(
        "",
        " ",
        "x",
        "-",
        "--",
        "-1",
        "None",
        "null",
        "true",
        "*",
        "%s",
        "%n%n",
        "{}",
        "{0}",
        "$HOME",
    ),
    *("a=b", "=", ":", ",", ",,", "a,b", "a:b=c", ";", "'", '"', "''", "\\", "\\x00", "`id`"),
    *("ü", "日本語", "😀", "\u202eabc", "e\u0301" * 20, "\u200b", "\ufeff", "\U0010ffff"),
    *("\t", "\n", "\r\n", "a\nb", "\x1b[31mred\x1b[0m", "\x07", "\x7f", "\x9b31m", "\u2028"),
    *("=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "<script>alert(1)</script>", "[bold]x[/bold]"),
    *("[/]", "[link=http://x]", "|", "a|b", "# x", "$x^2$", "\\frac{", "x" * 300, "y" * 70_000),
)
BYTES = (
    *(b"", b"x", b"-5", b"-1", b"0", b"nan", b"inf", b"-inf", b'"', b'""', b"9" * 30, b"\xff"),
    *(b"{", b"[]", b"}", b"1e400", b"1e300", b"1e-300", b"9e18", b"\0", b"\0\0\0\0", b"\xc3"),
    *(b"None", b"Unknown", b"null", b"-1e18", b"'", b"1.5", b"\xef\xbb\xbf", b"\xff\xfe", b"\r"),
    *(
        b"%s",
        b"/",
        b"=",
        b"=1+1",
        b"\x1b[31m",
        b"\x7f",
        b"\xed\xa0\x80",
        b"\xc2\x9b",
        b"\xe2\x80\xa8",
    ),
    *(b"2017-03-12 02:30:00", b"9999-12-31 23:59:59", b"0001-01-01 00:00:00", b"2020-02-30"),
    *(
        b"2017-10-05T09:00:00+99:99",
        b"253402300800",
        b"-62135596801",
        b"1e18",
        b"99999999999999999",
    ),
    *(b"x" * 5_000, b"\xf0\x9f\x98\x80", b"\xe2\x80\xae", b"#", b"\\", b"\\u0000", b"\n\n\n"),
)
SEPARATORS = (b",", b"\t", b"|", b" ", b":", b";", b"=", b"-")
JSON_VALUES = (
    None, True, False, -1, 0, 1, 1e308, -1e308, 1e-300, 9e18, 10**30, 1.5, "", "x", "None", "NaN",
    "\ud800", "\0", "\x1b[31m", "=1+1", "y" * 5_000, "9" * 400, "2017-10-05 09:00:00", "9999-12-31",
    [], [None], [[1]], {}, {"x": []}, {"": ""}, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
JSON_RAW = (
    b"[" * 2_000,
    b'{"a":' * 2_000,
    b"[" * 200_000,
    b'"\\ud800"',
    b'"\\u0000"',
    b"1e999",
    b"-0",
    b"NaN",
    b"Infinity",
    b'{"a":1,"a":2}',
    b"9" * 5_000,
    json.dumps([[[[1]]]]).encode(),
)
PATHS = (
    *("", ".", "..", "missing", "missing/x.parquet", "in", "in/", "x" * 300, "d/" * 2_100 + "x"),
    *("x\ty.parquet", "a\nb.parquet", "-", "--", "-o", "x", "x.", ".parquet", "ü.parquet"),
    *("\udcff.parquet", "\udcff", "a b.parquet", "*.parquet", "x.PARQUET", "x.parquet.gz"),
    *("~", "~nobody/x", "$HOME/x", "file://x.parquet", "s3://bucket/x.parquet", "C:\\x"),
    *("\x1b[31m.parquet", "nul", "x.json", "x.md", "x.csv", "x.svg", "x.png", "x.txt", "x.toml"),
    *("./x.json", "in/../x.json", "../x.parquet", "http://127.0.0.1:9/x", "x?.csv", "[a].csv"),
    *("=1+1", "@x", "+x/y"),
)
"""Names relative to the folder of a case; none leaves the folder of its worker."""
