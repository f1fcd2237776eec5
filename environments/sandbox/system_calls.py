"""The filter of system calls of a sandbox: no sockets but those between its processes (AF_UNIX), no
hidden memory.

A namespace for the network keeps a program from every address, but not from every family of
sockets: AF_VSOCK reaches the machine that runs this one, and others, such as AF_ALG, lead into more
of the kernel. The filter is a program of classic BPF, which the kernel runs at each system call
(seccomp). Programs inherit it and cannot take it off.

What a limit of memory counts is the memory of processes and the files in directories. The filter
refuses what can hold much of it elsewhere: files of memfd_create, and what System V shares between
processes, but for small segments of memory, one of which PostgreSQL needs to start.

A refused family looks as if the kernel was built without it (EAFNOSUPPORT), a refused segment as if
it allowed only small ones (EINVAL), and a refused system call as if it was older (ENOSYS), because
programs are prepared for that.

Source: linux/seccomp.h, linux/audit.h, linux/bpf_common.h and asm/unistd.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _CONVENTION, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _UPPER_HALF = 0, 4, 16, 24, 4
"""What is loaded: offsets in `struct seccomp_data`. Of a family it is the lower half of the
argument,
which is all that the kernel reads; the machines below are little-endian."""
_MAX_SEGMENT_BYTES = 4096
"""Linux has at most 4096 segments of shared memory in a sandbox, 16 MB then."""
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_FIRST_OF_X32 = 0x40000000
"""Lowest number of a second set of system calls on x86_64. No other machine has numbers as high."""


@dataclass(frozen=True, slots=True)
class _SystemCalls:
    """What the filter has to know of a machine."""

    convention: int
    """Its AUDIT_ARCH. A program of 32 bits has another one, in which the same numbers mean other
    system calls; it is killed."""
    sockets: tuple[int, int]
    """socket and socketpair."""
    shmget: int
    absent: tuple[int, ...]
    """io_uring_setup, because a ring opens sockets by itself; add_key, request_key and keyctl,
    because
    keyrings can be shared with the server, and because the kernel starts a program outside of the
    sandbox to look for a missing key; memfd_create, memfd_secret, msgget and semget."""
    debugging: tuple[int, ...]
    """ptrace, process_vm_writev and pidfd_getfd, which also reach into bubblewrap's process in the
    sandbox, and can keep it from telling that the program has ended."""


_MACHINES: Mapping[str, _SystemCalls] = {
    "x86_64": _SystemCalls(
        0xC000003E, (41, 53), 29, (425, 248, 249, 250, 319, 447, 68, 64), (101, 311, 438)
    ),
    "aarch64": _SystemCalls(
        0xC00000B7, (198, 199), 194, (425, 217, 218, 219, 279, 447, 186, 190), (117, 271, 438)
    ),
}
MACHINES = tuple(_MACHINES)
"""Machines for which there is a filter, as `platform.machine` names them."""


def filter_of(machine: str, *, has_debuggers: bool) -> bytes:
    """Return the filter for one of MACHINES, as an array of `struct sock_filter`."""
    calls = _MACHINES[machine]
    absent = calls.absent if has_debuggers else (*calls.absent, *calls.debugging)
    is_absent = (_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    # the second and third number of a test: how many to skip if it holds, and if not
    instructions = [
        (_LOAD, 0, 0, _CONVENTION),
        (_IF_EQUAL, 1, 0, calls.convention),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _FIRST_OF_X32),
        is_absent,
        *(line for number in absent for line in ((_IF_EQUAL, 0, 1, number), is_absent)),
        (_IF_EQUAL, 0, 6, calls.shmget),
        (_LOAD, 0, 0, _SECOND_ARGUMENT + _UPPER_HALF),
        (_IF_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        (_IF_AT_LEAST, 0, 1, _MAX_SEGMENT_BYTES + 1),
        (_RETURN, 0, 0, _ERROR | errno.EINVAL),
        (_RETURN, 0, 0, _ALLOW),
        (_IF_EQUAL, 2, 0, calls.sockets[0]),
        (_IF_EQUAL, 1, 0, calls.sockets[1]),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_IF_EQUAL, 0, 1, socket.AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
