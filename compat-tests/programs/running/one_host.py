# SPDX-License-Identifier: BSD-2-Clause
"""one_host.py APPS: runs the commands of docs/RUNNING.md over via_lo, APPS being the directory of the programs.

node7 and node8 are this host. Commands that need another host, a device or a program that is not here are named and left out;
the case "running" of hosts.programs runs those of two hosts."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # tests leave the sources alone
import page  # noqa: E402

APPS = Path(sys.argv.pop(1)).resolve()
PATIENCE = 120  # seconds; only a program that hangs takes this long
JOB, COMMANDS, UNIT = page.blocks("Launchers")
# A rank that ends while mpiexec.hydra starts others may end that with SIGPIPE. These work a little before they fail.
FAILS = "#!/bin/sh\nvip_info >/dev/null\nexit 3\n"
# Slurm and Open MPI take no address of the loopback interface.
ADDRESS = "10.77.0.1"
INTERFACE = ("ip tuntap add viprun mode tap && ip address add %s/24 dev viprun && ip link set viprun up" % ADDRESS)


def command_of(launcher):
    """The launcher's line of the page, with this host for both."""
    line = next(line for line in COMMANDS.splitlines() if launcher + " " in line).partition("   #")[0]
    return re.sub(r"node7,node8", "localhost,localhost", line).replace("-N 2 ", "").replace(" node7", " localhost")


class Running(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.at = Path(directory.name)
        self.environment = {**os.environ, "PATH": "%s:%s:%s" % (self.at, APPS, os.environ["PATH"]), "VIPL_NIC_MAP": "nic0=via_lo",
                            "VIPL_GRACE_MSEC": "60000", "VIPL_HOSTS": str(self.at / "vip_hosts")}

    def write(self, name, text):
        (self.at / name).write_text(text, encoding="utf-8")
        (self.at / name).chmod(0o755)

    def shell(self, command):
        done = subprocess.run(["sh", "-c", command], cwd=self.at, env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        print("$", command, done.stdout, done.stderr, sep="\n")
        return done


class Launchers(Running):
    def launch(self, command):
        """Both ranks exchange messages, and have the settings; and a rank's status is the job's, but of ssh's loop."""
        self.write("job.sh", JOB)
        self.environment["VIPL_TRACE"] = str(self.at / "trace.%p")
        done = self.shell(command)
        self.assertEqual(done.returncode, 0)
        self.assertIn("messages of 1024 bytes and back: all right", done.stdout)
        self.assertEqual(len(list(self.at.glob("trace.*"))), 2)
        self.write("job.sh", FAILS)
        if "ssh" not in command:
            self.assertEqual(self.shell(command).returncode, 3)

    def need(self, *programs):
        for program in programs:
            if not shutil.which(program, path=self.environment["PATH"] + ":/usr/sbin:/sbin"):
                self.skipTest("there is no %s here" % program)

    def need_interface(self):
        self.addCleanup(subprocess.run, ["ip", "link", "delete", "viprun"], capture_output=True, check=False)
        if self.shell(INTERFACE).returncode:
            self.skipTest("this user can make no interface")

    def test_mpich(self):
        self.need("mpiexec.hydra")
        self.environment["SLURM_PROCID"] = "0"  # as in a script of sbatch
        self.launch(command_of("mpiexec.hydra"))

    def test_open_mpi(self):
        self.need("mpirun.openmpi")  # mpirun may be another's
        self.need_interface()
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", SLURM_PROCID="0")
        self.launch(command_of("mpirun").replace("mpirun", "mpirun.openmpi"))

    def test_ssh(self):
        """With a shell in the place of ssh: so the quotes are right."""
        self.write("ssh", '#!/bin/sh\nshift\nexec env -i HOME=/ PATH="$PATH" VIPL_TRACE="$VIPL_TRACE" sh -c "$*"\n')
        self.launch(command_of("ssh"))

    def test_slurm(self):
        self.need("srun", "slurmctld", "slurmd")
        self.need_interface()
        host = socket.gethostname().partition(".")[0]
        for name in "state", "spool":
            (self.at / name).mkdir()
        self.write("slurm.conf", page.slurm_conf(self.at, {host: ADDRESS}, 2))
        self.environment.update(SLURM_CONF=str(self.at / "slurm.conf"))
        for daemon in "slurmctld", "slurmd":
            process = subprocess.Popen(["/usr/sbin/" + daemon, "-D"], env=self.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.send_signal, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while "idle" not in self.shell("sinfo").stdout and time.monotonic() < deadline:
            time.sleep(0.5)
        self.launch(command_of("srun"))

    def test_the_systemd_unit_is_one(self):
        self.need("systemd-analyze")
        (self.at / "via.service").write_text(UNIT.replace("/usr/bin/vip_run", str(APPS / "vip_run")), encoding="utf-8")
        done = self.shell("systemd-analyze verify --man=no ./via.service")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class TwoHosts(Running):
    def test_messages_and_a_program_go_from_one_to_the_other(self):
        """A name for the ping-pong's address, and a link to it, are the hosts' name and the old program."""
        for name in "server", "client":
            (self.at / name).symlink_to(APPS / "vip_pingpong")
        steps = [(where, line.replace("10.9.9.7", "127.0.0.1").replace("/etc/vip_hosts", str(self.at / "vip_hosts")))
                 for where, line in page.steps()]
        for where, line in steps:
            if line.startswith(("echo", "vip_info")):
                self.assertEqual(self.shell(line).returncode, 0)
            elif where == "both":
                print("not run on one host:", line)
        of = {host: [line for where, line in steps if where == host] for host in ("node7", "node8")}
        self.assertEqual(len(of["node7"]), len(of["node8"]))
        for server, client in zip(of["node7"], of["node8"]):
            done = self.shell("%s & %s; status=$?; wait $! && exit $status" % (server, client))
            self.assertEqual(done.returncode, 0)
            self.assertIn("all right", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
