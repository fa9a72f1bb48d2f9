"""Names come from logs and may be hostile: how each form of output shows them, one function a form.

Text from a log must have no effect: no control character reaches a terminal or a file, no cell is a
formula of a spreadsheet, no line is a command of a CI service, and no text is markup, a mention or
a link. Every text that may contain a name goes through one of these functions on output, whichever
command writes it. Docs: docs/reliability.md.
"""

from __future__ import annotations

import html as entities
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

HIDDEN = "?"
"""What people see for a character that cannot be shown."""

LOG_COMMAND = re.compile(r"^(\s*):(?=:)")
"""What GitHub runs where a line begins with it, after any blanks."""
LOG_GROUP = re.compile(r"#(?=#(?:\[|vso\[))")
"""Commands that GitHub and Azure Pipelines run anywhere in a line."""

FORMULA = re.compile("[' ]*[=+\\-@\uff1d\uff0b\uff0d\uff20]")
"""How a text begins that a spreadsheet takes for a formula, or that is marked as none already."""
CSV_MARK = "'"
CSV_QUOTED = re.compile(r"""[,;|"]|^[ ']|^::| $""")
"""Characters that need quotes in CSV, including separators of other locales."""
CSV_MAY_ACT = frozenset("#;\\")
"""Of printable ASCII, what `_coded` may have to code."""
CSV_SPLIT = re.compile(f";(?={FORMULA.pattern})")
"""What would begin a formula where a spreadsheet separates cells by semicolons."""
CSV_BACKSLASH = re.compile(r"\\(?=[\\\0]|u[0-9a-f]{4}|U[0-9a-f]{8})")
"""Text that would be read as a code; \\0 marks a literal one."""
NO_TEXT = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode that control and mark text: also bidirectional overrides and line ends."""

MARKDOWN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\0": "&#8203;"}
    | {mark: f"\\{mark}" for mark in "\\`|*[~"}
)
MARKDOWN_BREAKS = (
    # A mention, a reference to an issue, a label, a milestone; \0 becomes a space without width.
    (re.compile(r"([@%~])(?=[\w\"])|([#!&])(?=\d)"), "\\1\\2\0"),
    (re.compile(r"(\$)(?=[^\W\d])|(\*)(?=iteration:)|(\[)(?=\w+:)"), "\\1\\2\\3\0"),
    (re.compile(r"(?i)\b(GH)(?=-\d)"), "\\1\0"),
    # A link without markup: services make them of schemes and of www.
    (re.compile(r"(?i)([a-z])(?=://)"), "\\1\0"),
    (re.compile(r"(?i)(mailto|xmpp|www)(?=[:.])"), "\\1\0"),
    # A name of an emoji
    (re.compile(r"(?<!\d):(?=[A-Za-z0-9_+-]+:)"), ":\0"),
)
MARKDOWN_FIRST = re.compile(r"^(#{1,6}(?=\s|\0|$)|[-+](?=\s)|[-=]{2,}$|\d+(?=[.)](?:\s|$)))")
"""What begins a heading, an item or a rule where it begins a line."""
MARKDOWN_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
MARKDOWN_MATH = re.compile(r"\$(?![\d/])")


def visible(text: str) -> str:
    """Return a text on one line, with ``?`` for characters that cannot be shown."""
    return text if text.isprintable() else "".join(c if c.isprintable() else HIDDEN for c in text)


def visible_lines(text: str) -> str:
    """Return a text with its own line breaks, else as `visible` does."""
    return "\n".join(map(visible, text.split("\n")))


def terminal(text: str) -> str:
    """Return a text for one line of a terminal or of the log of a CI service."""
    return inert_line(visible(text))


def inert_line(line: str) -> str:
    """Return a line that no CI service takes for a command, as where a long text was folded."""
    return LOG_GROUP.sub("# ", LOG_COMMAND.sub(r"\1: ", line))


def message(text: str) -> str:
    """Return a message for standard error; its line breaks stay."""
    return "\n".join(map(terminal, text.split("\n")))


def csv_line(cells: Iterable[Any]) -> str:
    """Return a line of CSV; numbers stay numbers, and None is an empty cell."""
    return ",".join(map(csv_cell, cells)) + "\n"


def csv_cell(value: Any) -> str:
    r"""Return a cell of CSV that no spreadsheet and no terminal takes for more than a text.

    A text that would begin a formula gets an apostrophe before it. Control characters are written
    as in JSON (``\u001b``), and a backslash that could be mistaken for one of these is doubled. So
    every text can be read back; docs/reliability.md says how.
    """
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    text = _coded(str(value))
    if FORMULA.match(text):
        text = f"{CSV_MARK}{text}"
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if CSV_QUOTED.search(text) else text


def markdown(text: str) -> str:
    """Return a text on one line that Markdown shows as it is, on GitHub and on GitLab.

    Both make mentions and links of the text that markup leaves, so escapes do not prevent these: a
    space without width does. Its source stays readable, since it stands only where it is needed.
    """
    shown = visible(text)
    for pattern, broken in MARKDOWN_BREAKS:
        shown = pattern.sub(broken, shown)
    shown = shown.translate(MARKDOWN)
    shown = MARKDOWN_MATH.sub("&#36;", MARKDOWN_EDGE.sub(r"\\_", shown))
    if shown.startswith(("/", ":")):  # a command to GitLab; one in the log of a job
        shown = f"&#{ord(shown[0])};{shown[1:]}"
    return MARKDOWN_FIRST.sub(_first, shown)


def html(text: str) -> str:
    """Return a text for HTML or for an attribute of it."""
    return entities.escape(visible(text))


def xml(text: str) -> str:
    """Return a text that XML can hold; whoever writes the XML escapes its markup."""
    return visible(text)


def picture(text: str) -> str:
    """Return a text for a picture; that ``$`` begins no formula is a setting of all pictures."""
    return visible(text)


def json_text(written: str) -> str:
    """Return serialized JSON with the same values, but without commands of a CI service.

    What JSON allows inside a text but a terminal obeys is written as an escape.
    """
    if not written.isascii():
        written = "".join(
            c if ord(c) < 127 or unicodedata.category(c) not in NO_TEXT else _json_code(c)
            for c in written
        )
    return LOG_GROUP.sub(r"\\u0023", written.replace("\x7f", _code("\x7f")))


def annotation(text: str) -> str:
    """Return the message of an annotation of GitHub: the rest of its line."""
    return "%0A".join(visible(line).replace("%", "%25") for line in text.split("\n"))


def annotation_property(text: str) -> str:
    """Return the value of a property of an annotation of GitHub."""
    return annotation(text).replace(":", "%3A").replace(",", "%2C")


def _coded(text: str) -> str:
    """Return a text of CSV without what acts; each such character is a code."""
    if text.isascii() and text.isprintable() and CSV_MAY_ACT.isdisjoint(text):
        return text
    acting = {match.start() for rule in (LOG_GROUP, CSV_SPLIT) for match in rule.finditer(text)}
    acting |= {at for at, c in enumerate(text) if unicodedata.category(c) in NO_TEXT}
    marked = "".join("\0" if at in acting else c for at, c in enumerate(text))
    codes = iter([_code(text[at]) for at in sorted(acting)])
    marked = CSV_BACKSLASH.sub(r"\\\\", marked)
    return "".join(next(codes) if c == "\0" else c for c in marked)


def _code(character: str) -> str:
    point = ord(character)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _json_code(character: str) -> str:
    if unicodedata.category(character) == "Cs":
        return "\\ufffd"  # half a surrogate pair, as in a path that is not UTF-8, is not valid text
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _first(match: re.Match[str]) -> str:
    text = match[0]
    return f"{text}\\" if text[0].isdigit() else f"\\{text}"
