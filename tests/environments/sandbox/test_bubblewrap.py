"""Tests of what programs in the sandbox can do, and what hostile ones cannot."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from environments.sandbox.bubblewrap import (
    MAX_COMPUTING,
    MAX_RUNNING,
    Ran,
    Sandbox,
    SandboxError,
    SandboxLimits,
)
from tests.conformance.agent import eventually
from tests.rows import each
from tests.sandboxed import needs_bubblewrap, processes_with

pytestmark = needs_bubblewrap

ROOT = Path(__file__).resolve().parents[3]


def shell(script: str, stdin: bytes = b"", **limits: float) -> Ran:
    return Sandbox(SandboxLimits(**limits)).run(["bash", "-c", script], stdin)  # type: ignore[arg-type]


def python(program: str, **limits: float) -> Ran:
    return Sandbox(SandboxLimits(**limits)).run(["python3", "-I", "-c", program])  # type: ignore[arg-type]


# --- what a program can do ------------------------------------------------------------------------


def test_it_tells_both_outputs_and_the_status() -> None:
    assert shell("echo out; echo err >&2; exit 3") == Ran(3, b"out\n", b"err\n")


def test_it_feeds_more_than_a_pipe_holds() -> None:
    assert shell("wc -c", b"x" * 3_000_000).stdout == b"3000000\n"


def test_it_does_not_mind_a_program_that_reads_nothing() -> None:
    assert shell("exit 0", b"x" * 3_000_000).status == 0


def test_it_tells_a_signal_as_a_shell_does() -> None:
    assert shell("kill -9 $$").status == 137


def test_a_program_that_suspends_itself_does_not_hold_its_turn() -> None:
    assert shell("kill -STOP $$").stop_reason == "it suspended the process that runs it"


def test_programs_write_to_their_directory_and_to_tmp() -> None:
    assert shell("pwd; echo a > a; echo b > /tmp/b; cat a /tmp/b").stdout == b"/work\na\nb\n"


def test_every_run_starts_with_an_empty_directory() -> None:
    sandbox = Sandbox()
    sandbox.run(["touch", "left", "/tmp/left"])
    assert sandbox.run(["ls", "-A", "/work", "/tmp"]).stdout == b"/tmp:\n\n/work:\n"


def test_an_argument_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="contains a NUL character"):
        Sandbox().run(["echo", "a\0b"])


def test_programs_behind_alternatives_are_found() -> None:
    assert shell("echo a b | awk '{print $2}'").stdout == b"b\n"


def test_more_runs_than_turns_all_get_theirs() -> None:
    with ThreadPoolExecutor(2 * MAX_RUNNING) as pool:
        ran = list(pool.map(lambda number: shell(f"echo {number}").stdout, range(2 * MAX_RUNNING)))
    assert ran == [b"%d\n" % number for number in range(2 * MAX_RUNNING)]


def test_a_core_is_left_to_the_server() -> None:
    """Programs that compute print when they began and ended; at no time there are more than
    MAX_COMPUTING."""
    now = "echo ${EPOCHREALTIME/./}"  # unlike with `date`, the shell does not sleep meanwhile
    spin = f"{now}; for ((n = 0; n < 200000; n++)); do :; done; {now}"
    with ThreadPoolExecutor(MAX_COMPUTING + 2) as pool:
        times = [
            list(map(int, ran.stdout.split()))
            for ran in pool.map(lambda _: shell(spin), range(MAX_COMPUTING + 2))
        ]
    assert (
        max(sum(began <= start < ended for began, ended in times) for start, _ in times)
        <= MAX_COMPUTING
    )


def test_a_program_that_sleeps_lets_others_compute() -> None:
    sleeper = Sandbox(SandboxLimits(wall_seconds=100))
    with ThreadPoolExecutor(MAX_COMPUTING) as pool:
        runs = [pool.submit(sleeper.run, ["sleep", "98762"]) for _ in range(MAX_COMPUTING)]
        eventually(lambda: len(processes_with("98762")) == MAX_COMPUTING)
        assert shell("echo out").stdout == b"out\n"
        sleeper.close()
        assert all(run.exception(timeout=20) for run in runs)


# --- what it cannot see ---------------------------------------------------------------------------


@each(
    "path",
    [
        "/etc/passwd",
        "/root",
        "/home",
        "/proc/self/environ",
        "/proc/1/cmdline",
        "/sys",
        "/usr/local",
        "/usr/src",
        "/var",
        "/run",
        "/dev/shm",
        "/dev/sda",
    ],
)
def test_it_has_no(path: str) -> None:
    assert shell(f"ls -d {path}").status == 2


def test_it_has_neither_the_data_directory_nor_the_program() -> None:
    data, program = os.environ["ORSWEB_DATA_DIR"], ROOT / "manage.py"
    assert shell(f"ls -d {data}").status == shell(f"ls -d {program}").status == 2


def test_it_has_no_variables_of_the_server() -> None:
    lines = Sandbox().run(["env"]).stdout.decode().splitlines()
    assert sorted(lines) == [
        "HOME=/work",
        "LC_ALL=C.UTF-8",
        "PATH=/usr/bin",
        "PWD=/work",
        "PYTHONDONTWRITEBYTECODE=1",
    ]


def test_it_is_not_root() -> None:
    assert int(python("import os; print(os.getuid())").stdout) != 0


def test_it_has_no_descriptors_of_the_server() -> None:
    program = (
        "import os\nfor n in range(3, 200):\n try: os.fstat(n); print(n)\n except OSError: pass"
    )
    assert python(program) == Ran(0, b"", b"")


@each("path", ["/evil", "/usr/bin/evil", "/dev/evil", "/etc/evil"])
def test_it_writes_nowhere_else(path: str) -> None:
    assert b"Read-only file system" in shell(f"echo x > {path}").stderr


def test_links_lead_to_nothing_outside() -> None:
    assert b"No such file" in shell("ln -s /etc/passwd x; ln -s ../root y; cat x y").stderr


def test_it_reaches_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        ran = shell(f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}")
        assert ran.status != 0
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_it_opens_no_socket_but_those_between_its_processes() -> None:
    """Nothing is connected. A kernel refuses families that it lacks, but has AF_INET and
    AF_NETLINK."""
    program = """
import errno, itertools, socket
ways = {"socket": socket.socket, "socketpair": socket.socketpair}
for way, family, kind in itertools.product(ways, range(256), range(1, 11)):
    try:
        ways[way](family, kind)
        print(way, "AF_UNIX" if family == socket.AF_UNIX else family)
    except OSError as error:
        if family != socket.AF_UNIX and error.errno != errno.EAFNOSUPPORT:
            print(way, family, error)
"""
    assert set(python(program).stdout.decode().splitlines()) == {
        "socket AF_UNIX",
        "socketpair AF_UNIX",
    }


NAMES = ("io_uring_setup", "add_key", "request_key", "keyctl", "memfd_create", "memfd_secret", "msgget", "semget",
         "ptrace", "process_vm_writev", "pidfd_getfd", "socket of x32")  # fmt: skip
NUMBERS = {
    "x86_64": (425, 248, 249, 250, 319, 447, 68, 64, 101, 311, 438, 0x40000029),
    "aarch64": (425, 217, 218, 219, 279, 447, 186, 190, 117, 271, 438),
}
SYSTEM_CALLS = dict(zip(NAMES, NUMBERS[platform.machine()], strict=False))


def called(number: int, *arguments: int | str) -> str:
    """Return the expression of a system call and its error."""
    values = ", ".join(map(str, (number, *arguments)))
    return f"ctypes.CDLL(None, use_errno=True).syscall({values}), os.strerror(ctypes.get_errno())"


@each("name, number", SYSTEM_CALLS.items())
def test_it_has_no_system_call(name: str, number: int) -> None:
    """They would open sockets, hold memory that no limit counts, or reach into bubblewrap's own
    process."""
    call = called(number, 1, 0, 0, 0, 0)
    assert python(f"import ctypes, os; print(*({call}))").stdout == b"-1 Function not implemented\n"


@each(
    ("size", "error"),
    [(4096, ""), (4097, "Invalid argument"), ("ctypes.c_size_t(1 << 32)", "Invalid argument")],
)
def test_it_shares_no_more_than_a_page_of_memory(size: int | str, error: str) -> None:
    """Of a segment that no process has attached, no limit would count a byte."""
    shmget = {"x86_64": 29, "aarch64": 194}[platform.machine()]
    ran = python(
        f"import ctypes, os; number, error = {called(shmget, 0, size, 0o1600)}; "
        "print(number >= 0, error)"
    )
    assert ran.stdout.decode() == (f"False {error}\n" if error else "True Success\n")


if platform.machine() == "x86_64":

    def test_a_program_with_system_calls_of_32_bits_is_killed() -> None:
        """Its numbers are others: 20, which is getpid there, is writev here."""
        code = "b8 14 00 00 00 cd 80 c3"  # mov eax, 20; int 0x80; ret
        program = f"""
import ctypes, mmap
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(bytes.fromhex("{code}"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))())
"""
        assert python(program) == Ran(128 + signal.SIGSYS, b"", b"")


def test_it_sees_and_kills_no_process_but_its_own() -> None:
    ran = python(
        f"import os\nfor pid in (1, {os.getpid()}): os.kill(pid, 9) if pid == 1 else "
        "os.kill(pid, 0)"
    )
    assert b"ProcessLookupError" in ran.stderr


def test_it_makes_no_sandbox_of_its_own() -> None:
    assert shell("unshare --user true").status != 0


# --- what it cannot use up ------------------------------------------------------------------------


def test_a_fork_bomb_stays_small() -> None:
    ran = shell(":(){ :|:& };: ; sleep 100", wall_seconds=3)
    assert ran.stop_reason == "it took longer than 3 s"
    assert b"Resource temporarily unavailable" in ran.stderr
    assert shell("echo fine").stdout == b"fine\n"


def test_a_process_has_limited_memory() -> None:
    assert b"MemoryError" in python("bytearray(10**9)").stderr


def test_all_processes_together_have_limited_memory() -> None:
    hog = "import os, time\nfor _ in range(3): os.fork()\nx = b'x' * 10**8\ntime.sleep(100)"
    assert python(hog).stop_reason == "it used more than 256 MB of memory"


def test_an_endless_loop_ends() -> None:
    assert shell("while :; do :; done", cpu_seconds=1).status == 137


def test_waiting_for_ever_ends() -> None:
    ran = shell("echo begun >&2; sleep 100", wall_seconds=2.5)
    assert (ran.status, ran.stop_reason, ran.stderr) == (
        -1,
        "it took longer than 2.5 s",
        b"begun\n",
    )


def test_endless_output_ends() -> None:
    ran = shell("yes", stdout_bytes=1000)
    assert (ran.stop_reason, len(ran.stdout)) == ("it wrote too much", 1001)


def test_endless_errors_end() -> None:
    ran = shell("yes >&2", stderr_bytes=1000)
    assert (ran.stop_reason, len(ran.stderr), ran.is_cut) == ("it wrote too much", 1000, True)


def test_long_errors_are_cut_and_the_program_goes_on() -> None:
    ran = shell("head -c 1000000 /dev/zero >&2; echo done", stderr_bytes=1000)
    assert (ran.status, ran.stdout, len(ran.stderr), ran.is_cut) == (0, b"done\n", 1000, True)


@pytest.mark.parametrize("where", ["/work", "/tmp"])
def test_files_together_have_limited_size(where: str) -> None:
    script = f"for n in 1 2 3 4; do head -c 600000 /dev/zero > {where}/$n; done"
    assert b"No space left on device" in shell(script, disk_bytes=1_000_000).stderr


@pytest.mark.parametrize("where", ["/work", "/tmp"])
def test_files_have_a_limited_number(where: str) -> None:
    ran = python(f"import os\nn = 0\nwhile True:\n os.mknod(f'{where}/{{n}}')\n n += 1", files=1000)
    assert ran.stop_reason == "it made more than 1000 files"


def test_no_process_outlives_the_run() -> None:
    assert (
        shell("setsid nohup sleep 98765.25 >/dev/null 2>&1 & sleep 0.1; echo out").stdout
        == b"out\n"
    )
    eventually(lambda: not processes_with("98765.25"))


def test_no_process_outlives_a_run_that_was_stopped() -> None:
    assert shell("sleep 98765.5 & sleep 98765.5", wall_seconds=0.5).stop_reason
    eventually(lambda: not processes_with("98765.5"))


def test_no_process_outlives_the_server() -> None:
    program = (
        "from environments.sandbox.bubblewrap import Sandbox; Sandbox().run(['sleep', '98765.75'])"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as server:
        eventually(lambda: len(processes_with("98765.75")) > 0)
        server.kill()
    eventually(lambda: not processes_with("98765.75"))


def test_other_sessions_of_processes_go_first() -> None:
    """Linux shares time between sessions first, unless it is built without; then only the processes
    are nice."""
    sandbox = Sandbox(SandboxLimits(wall_seconds=100))
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(sandbox.run, ["bash", "-c", "setsid sleep 98765; true"])
        eventually(lambda: any(niceness(pid) in (5, 12) for pid in processes_with("98765")))
        sandbox.close()
        assert run.exception(timeout=20)


def niceness(pid: int) -> int:
    group = Path(f"/proc/{pid}/autogroup")
    own = os.getpriority(os.PRIO_PROCESS, pid) - os.nice(0)
    return int(group.read_text().split()[-1]) if group.exists() else own


# --- the end of a session -------------------------------------------------------------------------


def test_closing_ends_what_runs() -> None:
    sandbox = Sandbox(SandboxLimits(wall_seconds=100))
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(sandbox.run, ["sleep", "98764"])
        eventually(lambda: len(processes_with("98764")) > 0)
        sandbox.close()
        with pytest.raises(SandboxError, match="session has ended"):
            run.result(timeout=20)


def test_closing_ends_what_waits_for_its_turn() -> None:
    others, waiting = Sandbox(SandboxLimits(wall_seconds=100)), Sandbox()
    threads = [threading.Thread(target=_ignore, args=(others, "98763")) for _ in range(MAX_RUNNING)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(processes_with("98763")) == MAX_RUNNING)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(waiting.run, ["true"])
        waiting.close()
        with pytest.raises(SandboxError, match="session has ended"):
            run.result(timeout=20)
    others.close()
    for thread in threads:
        thread.join()


def _ignore(sandbox: Sandbox, seconds: str) -> None:
    with pytest.raises(SandboxError):
        sandbox.run(["sleep", seconds])


def test_nothing_runs_after_closing() -> None:
    sandbox = Sandbox()
    sandbox.close()
    with pytest.raises(SandboxError, match="session has ended"):
        sandbox.run(["true"])
