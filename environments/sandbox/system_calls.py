"""The filter of system calls of a sandbox: no sockets but those between its processes (AF_UNIX).

A namespace for the network keeps a program from every address, but not from every family of
sockets: AF_VSOCK reaches the machine that runs this one, and others, such as AF_ALG, lead into more
of the kernel. The filter is a program of classic BPF, which the kernel runs at each system call
(seccomp). Programs inherit it and cannot take it off.

A refused family looks as if the kernel was built without it (EAFNOSUPPORT), and a refused system
call as if the kernel was older (ENOSYS), because programs are prepared for that.

Source: linux/seccomp.h, linux/audit.h, linux/bpf_common.h and asm/unistd.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _CONVENTION, _FIRST_ARGUMENT = 0, 4, 16
"""What is loaded: offsets in `struct seccomp_data`. Of an argument it is the lower half, which is all
that the kernel reads of a family; the machines below are little-endian."""
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
    absent: tuple[int, ...]
    """io_uring_setup, because a ring opens sockets by itself; add_key, request_key and keyctl, because
    keyrings can be shared with the server, and because the kernel starts a program outside of the
    sandbox to look for a missing key."""


_MACHINES: Mapping[str, _SystemCalls] = {
    "x86_64": _SystemCalls(0xC000003E, (41, 53), (425, 248, 249, 250)),
    "aarch64": _SystemCalls(0xC00000B7, (198, 199), (425, 217, 218, 219)),
}
MACHINES = tuple(_MACHINES)
"""Machines for which there is a filter, as `platform.machine` names them."""


def filter_of(machine: str) -> bytes:
    """Return the filter for one of MACHINES, as an array of `struct sock_filter`."""
    calls = _MACHINES[machine]
    is_absent = (_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    instructions = [  # the second and third number of a test: how many to skip if it holds, and if not
        (_LOAD, 0, 0, _CONVENTION),
        (_IF_EQUAL, 1, 0, calls.convention),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _FIRST_OF_X32),
        is_absent,
        *(line for number in calls.absent for line in ((_IF_EQUAL, 0, 1, number), is_absent)),
        (_IF_EQUAL, 2, 0, calls.sockets[0]),
        (_IF_EQUAL, 1, 0, calls.sockets[1]),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_IF_EQUAL, 0, 1, socket.AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
