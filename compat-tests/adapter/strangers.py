# SPDX-License-Identifier: BSD-2-Clause
"""What somebody else has written: names, output of programs, and above all what the other host tells. Its shape and size are
checked here, and nowhere else; no terminal gets a character that it would obey."""

import json
import math
import re

MOST_TEXT = 64 << 10  # characters
MOST_SAID = 300  # of a line
MOST_NAMES = 16
DEEPEST = 16
# Its first part has a letter. Everything else could be replaced where it means something else.
NAME = re.compile(r"(?=[^.]*[A-Za-z])[A-Za-z0-9_][A-Za-z0-9_.-]{1,252}")
UNUSUAL = re.compile(r"[^\n\t -~]")


def printable(text):
    """Bytes that are no text look as they do in a file that is read with errors="backslashreplace"."""
    return UNUSUAL.sub(lambda match: match[0] if match[0].isprintable() else escaped(ord(match[0])), text)


def escaped(code):
    code -= 0xdc00 if 0xdc80 <= code <= 0xdcff else 0
    return "\\x%02x" % code if code < 256 else "\\u%04x" % code


def line(text):
    """Returns the text as one line, which is not too long."""
    return printable(" ".join(text[:MOST_SAID * 4].split()))[:MOST_SAID]


def cleaned(value, deepest=DEEPEST):
    """Returns the nested value with all its texts printable, and none too long."""
    if deepest < 0:
        raise ValueError("too deep")
    if isinstance(value, dict):
        return {printable(name[:MOST_TEXT]): cleaned(each, deepest - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [cleaned(each, deepest - 1) for each in value]
    if isinstance(value, str):
        return printable(value[:MOST_TEXT])
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("no number")
    return value


def object_in(text):
    """Returns the object that the JSON text is. Raises ValueError for everything else."""
    try:
        said = json.loads(text)
    except RecursionError:
        raise ValueError("too deep") from None
    return of_kind(dict, said)


def of_kind(kind, value):
    if not isinstance(value, kind) or (kind is str and len(value) > MOST_TEXT):
        raise ValueError("no %s, or too much of it" % {dict: "object", list: "list", str: "text"}[kind])
    return value


def told(said):
    """Returns what may be used of what the other host tells of itself. Raises ValueError for another shape."""
    if "failed" in said:
        return {"failed": line(of_kind(str, said["failed"]))}
    found = {name: of_kind(dict, said.get(name)) for name in ("facts", "names", "nic")}
    for device in of_kind(dict, found["facts"].get("devices")).values():
        of_kind(str, of_kind(dict, device).get("fw_ver", ""))
    for text in of_kind(dict, found["facts"].get("programs")).values():
        of_kind(str, text)
    names = {}
    for kind in "hosts", "users":
        all_names = [of_kind(str, name) for name in of_kind(list, found["names"].get(kind))]
        names[kind] = [name for name in all_names if NAME.fullmatch(name)][:MOST_NAMES]
    return cleaned({**found, "names": names})
