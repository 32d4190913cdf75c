# SPDX-License-Identifier: BSD-2-Clause
"""Replaces what a report tells of its site: names of hosts and users, MAC and IP addresses, GUIDs. The same thing always
gets the same word, in all files of a report, so that one can still see which address is whose. The time is proportional to the
text's length, whatever is in it."""

import functools
import ipaddress
import re

# Six bytes or more in hexadecimal: a MAC address, one of IPoIB, or a host address as VIPL has it.
BYTES = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}[:-]){5,}[0-9A-Fa-f]{2}(?![\w:-]|:[0-9A-Fa-f])")
GUID = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}(?![\w:])|(?<!\w)0x[0-9A-Fa-f]{16}(?!\w)")
# It may have more groups than an address: those before it, and a colon after it.
IPV6 = re.compile(r"(?<!\w)(?!:::)(?:[0-9A-Fa-f]{0,4}:){2,8}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?!\w)")
IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
HOME = re.compile(r"/home/([^\s/:;,'\"()<>\[\]]+)")
# A MAC address or GUID may be part of an interface's name. Eight digits may be any number's.
DIGITS = re.compile(r"(?<![A-Za-z0-9])(?:0x)?([0-9A-Fa-f]{8})(?![A-Za-z0-9])|[0-9A-Fa-f]{12,}")
MOST_DIGITS = 40
COMMON = {"", "root", "localhost", "localdomain", "local"}


class Replacer:
    """replaces(text) gives the text without the names. The names of hosts and users have to be learnt first, addresses it
    finds by itself; they have to be learnt, too, because they may also stand somewhere without colons."""

    def __init__(self, like=None):
        """like: one with the same addresses, whose names this one replaces, too."""
        self._words = like._words if like else {}  # kind: {what is replaced: its number}
        self._digits = like._digits if like else {}  # hexadecimal digits of addresses, without colons
        self._public = set(like._public) if like else set()
        self._names = dict(like._names) if like else {}  # exact words, in small letters
        self._exact = None

    def _word(self, kind, what):
        numbers = self._words.setdefault(kind, {})
        return "%s-%d" % (kind, numbers.setdefault(what, len(numbers) + 1))

    def learn_host(self, number, *names):
        """All these names are of one host."""
        for name in names:
            parts = name.lower().rstrip(".").split(".")
            if is_address(name):
                continue
            self._learn_name(parts[0], "host-%d" % number)
            if len(parts) > 1:
                self._learn_name(".".join(parts[1:]), "domain-%d" % number)

    def learn_user(self, *names):
        for name in names:
            if name.lower() not in COMMON:
                self._learn_name(name.lower(), self._word("user", name.lower()))

    def _learn_name(self, name, word):
        if name not in COMMON:
            self._names.setdefault(name, word)
            self._exact = None

    def keep(self, *versions):
        """Versions may look like addresses."""
        self._public.update(versions)

    def learn_addresses(self, value):
        """Learns the digits of the addresses in a text, or in all texts of a nested value."""
        for text in texts_in(value):
            self._without_addresses(text)

    def replaces(self, text):
        text = HOME.sub(self._home, self._without_addresses(text))
        return self._names_in().sub(lambda match: self._names[match[0].lower()], self._without_digits(text))

    def replaces_in(self, value):
        """Replaces in all texts of a nested value."""
        if isinstance(value, dict):
            return {self.replaces(name): self.replaces_in(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.replaces_in(each) for each in value]
        return self.replaces(value) if isinstance(value, str) else value

    def _without_addresses(self, text):
        text = BYTES.sub(lambda match: self._bytes(match[0]), text)
        text = GUID.sub(lambda match: self._guid(digits_of_guid(match[0])), text)
        text = "".join(self._parts_without_ipv6(text))
        return IPV4.sub(lambda match: self._ipv4(match[0]), text)

    def _without_digits(self, text):
        lengths = sorted({len(digits) for digits in self._digits if len(digits) > 8}, reverse=True)
        return DIGITS.sub(lambda match: self._digits_in(match, lengths), text)

    def _digits_in(self, match, lengths):
        if match[1]:
            return self._digits.get(match[1].lower(), match[0])
        parts, text, at = [], match[0], 0
        lower = text.lower()
        while at < len(text):
            length = next((each for each in lengths if lower[at:at + each] in self._digits), 0)
            parts.append(self._digits[lower[at:at + length]] if length else text[at])
            at += length or 1
        return "".join(parts)

    def _names_in(self):
        if not self._exact:
            forms = "|".join(map(re.escape, sorted(self._names, key=len, reverse=True)))
            self._exact = re.compile(r"(?<![A-Za-z0-9_])(?:%s)(?![A-Za-z0-9_])" % forms if forms else "(?!)", re.I | re.A)
        return self._exact

    def _home(self, match):
        name = match[1].rstrip(".").lower()
        return "/home/" + (self._word("user", name) + match[1][len(name):] if name not in COMMON else match[1])

    def _learn_digits(self, digits, word):
        if len(digits) <= MOST_DIGITS:
            self._digits.setdefault(digits, word)
        return word

    def _bytes(self, text):
        digits = re.sub("[:-]", "", text).lower()
        return text if not digits.strip("0") else self._learn_digits(digits, self._word("mac", digits))

    def _guid(self, digits):
        """It may stand elsewhere in the other byte order."""
        if not digits.strip("0"):
            return "0000:0000:0000:0000"
        word = self._digits.get(digits) or self._word("guid", digits)
        self._learn_digits(bytes.fromhex(digits)[::-1].hex(), word)
        return self._learn_digits(digits, word)

    def _ipv4(self, text):
        if text in self._public or not is_address(text):
            return text
        address = ipaddress.IPv4Address(text)
        is_known = address.is_loopback or address.is_unspecified or text.startswith("255.")
        return text if is_known else self._learn_digits(address.packed.hex(), self._word("ipv4", text))

    def _ipv6(self, address):
        """Returns a word, or nothing for an address that everybody has."""
        if address.ipv4_mapped:
            return "::ffff:" + self._ipv4(str(address.ipv4_mapped))
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return None
        if address in ipaddress.IPv6Network("fe80::/64"):  # its second half is the port's GUID, or made of the MAC address
            lower = address.packed[8:].hex()
            return "fe80::" + self._guid(lower) if lower.strip("0") else None
        return self._word("ipv6", address.packed)

    def _parts_without_ipv6(self, text):
        at, found = 0, IPV6.search(text)
        while found:
            begin, end = found.span()
            address = longest_ipv6(text[begin:end])
            end = begin + (len(address) or 1)
            yield text[at:begin]
            yield (address and self._ipv6(ipaddress.IPv6Address(address))) or text[begin:end]
            at, found = end, IPV6.search(text, end)
        yield text[at:]


@functools.lru_cache(1 << 12)
def longest_ipv6(text):
    """Returns the longest address that the text begins with."""
    while text.count(":") > 1:
        if ":::" not in text and text.count("::") < 2 and is_address(text, ipaddress.IPv6Address):  # the quick tests first
            return text
        text = text[:text.rindex(":")]
    return ""


def texts_in(value):
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, str):
        yield value


def is_address(text, kind=ipaddress.ip_address):
    try:
        kind(text)
    except ValueError:
        return False
    return True


def digits_of_guid(text):
    return text.lower().replace(":", "").replace("0x", "")
