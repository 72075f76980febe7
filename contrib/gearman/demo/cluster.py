# SPDX-License-Identifier: MIT
"""Machines of a cluster as network namespaces of this one.

enter() restarts the program in private namespaces of users (unless root has
started it), mounts, processes and networks. All processes end with the
program, and no address or port is in use elsewhere. A Cluster has a bridge
with the address HOST, on which gearmand listens. Each Machine has a network
namespace with a cable (a veth pair) to the bridge, a forkd and a gateway.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

HOST = "10.99.0.1"
PORT = 4730
BUILD = Path(os.environ.get("top_builddir", ".")).resolve()
PERIOD_US = 20_000  # of a limit of CPU time
_DIRECTORY = "FORKD_CLUSTER_DIRECTORY"
_CGROUPS = "FORKD_CLUSTER_CGROUPS"


class CannotRun(Exception):
    """This machine lacks something; the text says what."""


def enter(limits: dict[str, float] | None = None) -> None:
    """Returns in the namespaces, which it enters by running the program again.

    limits: CPUs by the name of a machine, or "server" for gearmand. If no
    control groups can be made, limited() is false.
    """
    if _DIRECTORY in os.environ:
        _run("mount", "-t", "tmpfs", "none", "/run")  # for ip netns
        _run("ip", "link", "set", "lo", "up")
        return
    for tool in ("unshare", "ip", "gearmand"):
        if shutil.which(tool, path=_path()) is None:
            raise CannotRun(f"not installed: {tool}")
    user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    unshare = ["unshare", *user, "--net", "--mount", "--fork", "--pid", "--kill-child",
               "--mount-proc"]
    test = subprocess.run([*unshare, "ip", "link", "add", "forkd0", "type", "bridge"],
                          capture_output=True, text=True, env={"PATH": _path()})
    if test.returncode != 0:
        raise CannotRun(f"no namespaces for a cluster: {test.stderr.strip()}")
    directory = Path(tempfile.mkdtemp(prefix="forkd-cluster-"))
    directory.chmod(0o755)  # tasks can run as another user
    groups = _limit(limits or {})
    env = os.environ | {
        _DIRECTORY: str(directory), _CGROUPS: ":".join(groups), "PATH": _path(),
        # The libraries of the build, for import_forkd().
        "LD_LIBRARY_PATH": str(BUILD / ".libs"), "FORKD_PLUGIN_DIR": str(BUILD / ".libs")}
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: sys.exit(1))
    child = subprocess.Popen([*unshare, sys.executable, *sys.argv], env=env)
    try:
        status = child.wait()
    finally:
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.SIG_IGN)
        for pid in _children(child.pid):  # the first process of the namespace: its end is that of all
            os.kill(pid, signal.SIGKILL)
        child.wait()
        for group in groups:
            _remove(Path(group))
        shutil.rmtree(directory)
    sys.exit(status)


def _children(pid: int) -> list[int]:
    return [int(word) for thread in Path(f"/proc/{pid}/task").glob("*/children")
            for word in _words(thread)]


def import_forkd() -> ModuleType:
    """Builds the Python package for this build, and imports it."""
    directory = Path(os.environ[_DIRECTORY])
    subprocess.run([sys.executable, "setup.py", "-q", "build", "--build-base",
                    str(directory / "base"), "--build-lib", str(directory / "python")],
                   cwd=Path(__file__).resolve().parents[2] / "python", check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sys.path.insert(0, str(directory / "python"))
    return importlib.import_module("forkd")


def limited() -> bool:
    """Whether enter() has made control groups."""
    return bool(os.environ[_CGROUPS])


def _group(name: str) -> str | None:
    return next((group for group in os.environ[_CGROUPS].split(":")
                 if group.endswith("-" + name)), None)


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _limit(limits: dict[str, float]) -> list[str]:
    """Makes a control group for each machine; returns their directories, or none."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
        parent = Path("/sys/fs/cgroup" + own)
        while parent != Path("/sys/fs") and "cpu" not in _words(parent / "cgroup.subtree_control"):
            parent = parent.parent
        name, value = "cpu.max", f"{{}} {PERIOD_US}"
    else:
        parent = Path("/sys/fs/cgroup/cpu")
        name, value = "cpu.cfs_quota_us", "{}"
    made: list[str] = []
    try:
        for machine, cpus in limits.items():
            group = parent / f"forkd-{os.getpid()}-{machine}"
            group.mkdir()
            made.append(str(group))
            if name != "cpu.max":
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / name).write_text(value.format(int(cpus * PERIOD_US)))
    except OSError:
        for directory in made:
            _remove(Path(directory))
        return []
    return made


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _remove(group: Path) -> None:
    while _words(group / "cgroup.procs"):
        time.sleep(0.01)
    group.rmdir()


class Process:
    """A program that reports to sd_notify(3) that it is ready."""

    def __init__(self, log: Path, command: list[str], group: str | None = None) -> None:
        self.name = str(log.with_suffix(""))
        name = self.name + ".ready"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, log.open("ab") as out:
            ready.bind(name)
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=os.environ | {"NOTIFY_SOCKET": name},
                preexec_fn=lambda: _join(group))
            self.pid = self.child.pid
            ready.settimeout(0.1)
            message = b""
            while b"READY=1" not in message:
                try:
                    message = ready.recv(4096)
                except TimeoutError:
                    if self.child.poll() is not None:
                        raise RuntimeError(f"{command}: {log.read_text()}") from None
        os.unlink(name)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def stop(self) -> int:
        self.child.terminate()
        return self.child.wait()


def _join(group: str | None) -> None:
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))


class Machine:
    """A network namespace with a forkd and a gateway, which start() starts."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.name = f"m{number}"
        self.directory = cluster.directory / self.name
        self.directory.mkdir(mode=0o755)
        self.socket = self.directory / "forkd.sock"
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns",
             self.name)
        _run("ip", "link", "set", self.name, "master", "forkd0", "up")
        for arguments in (("addr", "add", f"10.99.0.{10 + number}/24", "dev", "eth0"),
                          ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            _run("ip", "-n", self.name, *arguments)

    def start_forkd(self, *options: str) -> None:
        self.forkd = self._start("forkd", [
            str(BUILD / "forkd"), f"--socket={self.socket}", "--log-level=warning", *options])

    def start_gateway(self, *options: str) -> None:
        self.gateway = self._start("gateway", [
            str(BUILD / "forkd-gearman"), f"--socket={self.socket}",
            f"--server={HOST}:{PORT}", *options])

    def plug(self, plugged: bool) -> None:
        """Plugs the cable in, or out."""
        _run("ip", "link", "set", self.name, "up" if plugged else "down")

    def pool_pid(self) -> int:
        """Returns the process that runs the tasks: the child of the manager."""
        while not _children(self.forkd.pid):
            time.sleep(0.01)
        return _children(self.forkd.pid)[0]

    def _start(self, name: str, command: list[str]) -> Process:
        # This exec keeps the process id: ip becomes the program.
        return Process(self.directory / f"{name}.log",
                       ["ip", "netns", "exec", self.name, *command], _group(self.name))


class Cluster:
    """A bridge, gearmand, and machines, in the namespaces that enter() has made."""

    def __init__(self, machines: int) -> None:
        self.directory = Path(os.environ[_DIRECTORY])
        _run("ip", "link", "add", "forkd0", "type", "bridge")
        _run("ip", "addr", "add", f"{HOST}/24", "dev", "forkd0")
        _run("ip", "link", "set", "forkd0", "up")
        self.machines = [Machine(self, number + 1) for number in range(machines)]

    def start_server(self, *options: str) -> None:
        """Starts gearmand, and returns when it accepts connections."""
        log = self.directory / "gearmand.log"
        self.server = subprocess.Popen(
            ["gearmand", f"--listen={HOST}", f"--port={PORT}", f"--log-file={log}",
             f"--pid-file={self.directory / 'gearmand.pid'}", *options],
            stdin=subprocess.DEVNULL, preexec_fn=lambda: _join(_group("server")))
        while True:
            try:
                socket.create_connection((HOST, PORT)).close()
                return
            except ConnectionRefusedError:
                if self.server.poll() is not None:
                    raise RuntimeError(f"gearmand: {log.read_text()}") from None
                time.sleep(0.01)

    def functions(self) -> dict[str, tuple[int, int, int]]:
        """Returns the functions of the server: jobs, running jobs and workers of each."""
        with socket.create_connection((HOST, PORT)) as admin, admin.makefile("rw") as lines:
            lines.write("status\n")
            lines.flush()
            rows = [line.split("\t") for line in iter(lines.readline, ".\n")]
        return {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in rows}

    def wait_for(self, function: str, workers: int = 1) -> None:
        """Returns when this number of workers of the function is connected."""
        while self.functions().get(function, (0, 0, 0))[2] < workers:
            time.sleep(0.01)
