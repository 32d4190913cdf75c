#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the interface of the shared library with that of the release, which is in a file.

symbols.py has the names and versions of the functions, and layout.c the sizes and offsets of what the header defines,
compiled without the library's options. abidw reads the debug information of the library as it was built, and this adds:

- types of members and not only their sizes: what is signed, and what a pointer points to;
- enumerators and members that are new;
- parameters and results of functions;
- options of the build that change a layout, such as -fshort-enums.

What is removed or changed breaks programs that were built with the release. After an addition the file is made anew in the
same commit: cmake --build --preset release --target abi_dump.

usage: interface.py [--write] ABIDW LIBRARY FILE
"""

import difflib
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

# The exported functions and the types that they reach.
ABIDW = ["--exported-interfaces-only", "--no-show-locs", "--no-parameter-names"]
RECORDS = {"class-decl": "struct", "union-decl": "union", "enum-decl": "enum"}


class Interface:
    """The text of what abidw writes: a line for each function, type and member. It does not depend on abidw's format."""

    def __init__(self, corpus):
        self.types = {element.get("id"): element for element in corpus.iter() if element.get("id")}
        self.lines = {}  # of each type with a name
        versions = {symbol.get("name"): symbol.get("version") for symbol in corpus.iter("elf-symbol")
                    if symbol.get("is-defined") == "yes"}
        # abidw 2.6 writes what the library calls, too.
        functions = [one for one in corpus.findall(".//function-decl") if one.get("name") in versions]
        self.functions = ["%s %s" % (versions[function.get("name")], self.function(function, function.get("name")))
                          for function in sorted(functions, key=lambda one: one.get("name"))]

    def text(self):
        named = [line for name in sorted(self.lines) for line in self.lines[name]]
        return "\n".join([*self.functions, *named, ""])

    def function(self, element, name):
        # From format 3 on a function refers to its type.
        element = self.types.get(element.get("type-id"), element)
        parameters = ", ".join(self.type_of(parameter) for parameter in element.findall("parameter"))
        return "%s %s(%s)" % (self.type_of(element.find("return")), name, parameters)

    def type_of(self, element):
        """Returns the words of an element's type, and notes the lines of what it names."""
        kind = self.types[element.get("type-id")]
        name = kind.get("name")
        if kind.tag == "pointer-type-def":
            target = self.types[kind.get("type-id")]
            return self.function(target, "(*)") if target.tag == "function-type" else self.type_of(kind) + " *"
        if kind.tag == "qualified-type-def":
            return "const " + self.type_of(kind)
        if kind.tag == "array-type-def":
            return self.type_of(kind) + "".join("[%s]" % part.get("length") for part in kind.findall("subrange"))
        if kind.tag == "typedef-decl" and name.startswith("arg_"):  # a kind of argument in functions.def
            return self.type_of(kind)
        if kind.tag == "typedef-decl":
            self.note(name, lambda: [name + " is " + self.type_of(kind)])
        elif kind.tag == "type-decl":
            self.note(name, lambda: ["%s: %s bits" % (name, kind.get("size-in-bits", "no"))])
        else:
            word = RECORDS[kind.tag]
            # abidw's names of those that have none, which a typedef or a member gives one, differ.
            if kind.get("is-anonymous") or kind.get("naming-typedef-id"):
                return word + " {" + "; ".join(self.record(kind)) + "}"
            name = "%s %s" % (word, name)
            self.note(name, lambda: [name + " has", *("\t" + line for line in self.record(kind))])
        return name

    def note(self, name, lines):
        if name not in self.lines:
            self.lines[name] = []  # it may contain pointers to itself
            self.lines[name] = lines()

    def record(self, kind):
        """Returns the members, and the size."""
        if kind.tag == "enum-decl":
            size = self.types[kind.find("underlying-type").get("type-id")].get("size-in-bits")
            members = ["%s %s" % (one.get("value"), one.get("name")) for one in kind.findall("enumerator")]
        else:
            size = kind.get("size-in-bits")
            members = [self.member(one, one.find("var-decl")) for one in kind.findall("data-member")]
        return [*members, "%s bits" % size]

    def member(self, element, variable):
        at = element.get("layout-offset-in-bits", "0")
        return ("at %s %s %s" % (at, self.type_of(variable), variable.get("name"))).rstrip()


def main():
    writes = sys.argv[1:2] == ["--write"]
    if len(sys.argv) != 4 + writes:
        sys.exit(__doc__)
    abidw, library, name = sys.argv[1 + writes:]
    path = pathlib.Path(name)
    found = subprocess.run([abidw, *ABIDW, library], check=True, stdout=subprocess.PIPE).stdout
    text = Interface(ElementTree.fromstring(found)).text()
    for part in "VipOpenNic(", "0 VIP_SUCCESS", "VIP_UINT16 HostAddressLen":
        if part not in text:
            sys.exit("interface: %s tells nothing of its types: is it built with -g?" % library)
    if writes:
        path.write_text(text, encoding="ascii")
        return
    difference = list(difflib.unified_diff(path.read_text(encoding="ascii").split("\n"), text.split("\n"),
                                           path.name, library, lineterm=""))
    if difference:
        print(*difference, sep="\n", file=sys.stderr)
        sys.exit("interface: programs that were built with the release break where a line is changed or gone;"
                 " after an addition make the file anew: --target abi_dump")
    print("interface: that of " + path.name)


if __name__ == "__main__":
    main()
