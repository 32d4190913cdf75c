# SPDX-License-Identifier: BSD-2-Clause
"""The commands of docs/RUNNING.md, for the tests that run them."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/RUNNING.md"


def blocks(chapter):
    """Returns the indented blocks of the chapter, each without its indentation."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## %s\n" % chapter)[2].partition("\n## ")[0]
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.M)
    return [re.sub("^ {4}", "", block, flags=re.M).strip("\n") + "\n" for block in found if block.strip()]


def steps():
    """Returns the commands of "Two hosts, from nothing" in order, each with where it runs: "both", "node7" or "node8"."""
    found = []
    for block in blocks("Two hosts, from nothing"):
        for part in re.split(r"^(?=# on )", block, flags=re.M)[1:]:
            where, *lines = part.splitlines()
            found += [(re.match("# on (both|node7|node8)", where)[1], re.sub(r" +#.*", "", line)) for line in lines if line]
    return found


CLUSTER = """ClusterName=test
SlurmctldHost={first}({address})
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
ReturnToService=2
MpiDefault=none
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def slurm_conf(at, addresses, ranks):
    """A cluster of hosts, with their addresses, for so many ranks on each. The first one has the controller. Its files are in the
    directory "at"."""
    first, address = next(iter(addresses.items()))
    return CLUSTER.format(first=first, address=address, at=at) + "".join(
        "NodeName=%s NodeAddr=%s CPUs=%d State=UNKNOWN\n" % (*node, ranks) for node in addresses.items())
