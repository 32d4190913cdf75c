# SPDX-License-Identifier: BSD-2-Clause
"""Replaces what a report tells of its site: names of hosts and users, MAC and IP addresses, GUIDs. The same thing always
gets the same word, in all files of a report, so that one can still see which address is whose."""

import ipaddress
import re

# Six bytes or more in hexadecimal: a MAC address, one of IPoIB, or a host address as VIPL has it.
BYTES = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}[:-]){5,}[0-9A-Fa-f]{2}(?![\w:-]|:[0-9A-Fa-f])")
GUID = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}(?![\w:])|(?<!\w)0x[0-9A-Fa-f]{16}(?!\w)")
IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
COMMON = {"", "root", "localhost", "localdomain", "local"}


class Replacer:
    """replaces(text) gives the text without the names. The names of hosts and users have to be learnt first, addresses it
    finds by itself; they have to be learnt, too, because they may also stand somewhere without colons."""

    def __init__(self):
        self._words = {}  # kind: {what is replaced: its number}
        self._names = {}  # exact words, in small letters
        self._digits = {}  # hexadecimal digits of addresses, without colons
        self._public = set()
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

    def learn_addresses(self, text):
        """Learns the digits of the addresses in the text."""
        for found in BYTES.findall(text):
            self._digits.setdefault(re.sub("[:-]", "", found).lower(), self._bytes(found))
        for found in GUID.findall(text):
            self._digits.setdefault(digits_of_guid(found), self._guid(digits_of_guid(found)))
        for found in IPV4.findall(text):
            if is_address(found) and found not in self._public:
                digits = ipaddress.IPv4Address(found).packed.hex()
                if self._ipv4(found) != found:
                    self._digits.setdefault(digits, self._ipv4(found))
        self._exact = None

    def replaces(self, text):
        text = BYTES.sub(lambda match: self._bytes(match[0]), text)
        text = GUID.sub(lambda match: self._guid(digits_of_guid(match[0])), text)
        text = IPV6.sub(self._ipv6_in, text)
        text = IPV4.sub(lambda match: self._ipv4(match[0]), text)
        return self._exact_words().sub(self._exact_word, text)

    def _exact_words(self):
        if not self._exact:
            longest_first = sorted(self._names, key=len, reverse=True)
            # A MAC address or GUID may be part of an interface's name. Eight digits may be any number's.
            forms = [r"(?<![A-Za-z0-9_])%s(?![A-Za-z0-9_])" % re.escape(name) for name in longest_first]
            forms += [digits if len(digits) > 8 else r"(?<![A-Za-z0-9])(?:0x)?%s(?![A-Za-z0-9])" % digits
                      for digits in sorted(self._digits, key=len, reverse=True)]
            self._exact = re.compile("|".join(forms) or "(?!)", re.I)
        return self._exact

    def _exact_word(self, match):
        word = match[0].lower()
        return self._names.get(word) or self._digits[word[2:] if word.startswith("0x") else word]

    def _bytes(self, text):
        digits = re.sub("[:-]", "", text).lower()
        return text if not digits.strip("0") else self._word("mac", digits)

    def _guid(self, digits):
        return "0000:0000:0000:0000" if not digits.strip("0") else self._word("guid", digits)

    def _ipv4(self, text):
        if text in self._public or not is_address(text):
            return text
        address = ipaddress.IPv4Address(text)
        is_known = address.is_loopback or address.is_unspecified or text.startswith("255.")
        return text if is_known else self._word("ipv4", text)

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

    def _ipv6_in(self, match):
        """The text may have more colons and dots than the address, and may be part of a word such as std::add."""
        text, around = match[0], match.string
        joined = match.start() and re.match(r"\w", around[match.start() - 1])
        follows = re.match(r"\w", around[match.end():match.end() + 1])
        starts = [at for at in range(len(text)) if (at and text[at - 1] == ":") or (not at and not joined)]
        ends = [at for at in range(len(text), 0, -1)
                if (at < len(text) and text[at] in ":.") or (at == len(text) and not follows)]
        for start in starts:
            for end in ends:
                if text.count(":", start, end) > 1 and is_address(text[start:end]):
                    word = self._ipv6(ipaddress.IPv6Address(text[start:end]))
                    return text if word is None else text[:start] + word + text[end:]
        return text


def is_address(text):
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def digits_of_guid(text):
    return text.lower().replace(":", "").replace("0x", "")
