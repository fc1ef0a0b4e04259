"""The binary interface between generated host code and the runtime: frames, error records, array structs, the pool.

A *frame* holds one call: a block of i64 slots that the runtime fills and `prepare` and `run` read and write. It begins
with the slots of `Slot`; behind them come the slots whose number depends on the function, in the order
arguments | outputs | descriptors | data | ends | tables | symbols | shapes | derived, at the numbers which the contract
of each function gives. Frames are reused: what does not change between calls (addresses of weights, symbols bound at
load, ids of types) is written once, when a frame is made.
"""

from __future__ import annotations

import enum

FRAME_ABI = 2
POOL_ABI = 1
WORD = 8


class Slot(enum.IntEnum):
    """The fixed slots of a frame. The kernel context is the seven slots from POOL_RUN on."""

    ERROR = 0  # a Failure, and what it is about:
    INDEX = 1  # number of the parameter, output or step
    DIM = 2  # dimension, or the other parameter
    GOT = 3
    EXPECTED = 4
    POOL_RUN = 5  # address of pool_run(handle, fn, arg, chunks)
    POOL = 6  # address of the handle: the frame's own slot HANDLE
    WORKERS = 7  # set by prepare
    SCRATCH = 8  # set by prepare
    SCRATCH_STRIDE = 9  # set by prepare
    KERNEL_ERROR = 10  # 1 + (kernel << 16 | check) of a failed Require
    KERNEL_VALUE = 11
    HANDLE = 12  # address of the pool's control block, 0 for none
    LIMIT = 13  # workers this call may use; set by prepare
    REGION = 14  # address of this frame's memory: scratch of every worker, then the arena
    CAPACITY = 15  # bytes of it
    ARENA = 16  # set by prepare
    NEEDED = 17  # bytes of the region that this call needs; set by prepare
    ARRAY_TYPE = 18  # what ob_type of an array must be
    IN_USE = 19  # 1 where memory is laid out by the sizes of the call, having no room for the plan at the bound


CONTEXT = Slot.POOL_RUN
HEADER_SLOTS = 20


class Failure(enum.IntEnum):
    """What `prepare` returns; 0 means that the call may run."""

    NOT_ARRAY = 1  # INDEX: parameter
    RANK = 2  # INDEX: parameter; GOT, EXPECTED
    DTYPE = 3  # INDEX: parameter
    LAYOUT = 4  # INDEX: parameter; GOT: flags
    READ_ONLY = 5  # INDEX: parameter
    INEXACT = 6  # INDEX: step; GOT: numerator, EXPECTED: divisor
    NEGATIVE = 7  # INDEX: step; GOT: value of the symbol
    UNEQUAL = 8  # INDEX: step; GOT, EXPECTED
    FACT = 9  # INDEX: step; GOT, EXPECTED: the two sides where there are two
    OVERFLOW = 10  # INDEX: step or output; DIM: a Place
    DIVISION = 11  # the same, for a divisor that is 0
    OVERLAP = 12  # INDEX: parameter that is written; DIM: the other parameter
    OUTPUT = 13  # INDEX: output; DIM: dimension; GOT: its negative size
    GROW = 14  # GOT: bytes the region must have; not an error of the caller


class Place(enum.IntEnum):
    """Where arithmetic on sizes failed."""

    STEP = 0
    OUTPUT = 1
    LAUNCH = 2
    MEMORY = 3


class ArrayOffset(enum.IntEnum):
    """Byte offsets in a PyArrayObject of CPython's numpy; `numpy_abi` makes sure of them."""

    TYPE = 8
    DATA = 16
    RANK = 24  # int32
    DIMS = 32
    STRIDES = 40
    DESCRIPTOR = 56
    FLAGS = 64  # int32


ARRAY_BYTES = 72


class ArrayFlag(enum.IntFlag):
    """numpy's own; C_CONTIGUOUS takes no notice of the strides of sizes 0 and 1."""

    C_CONTIGUOUS = 0x1
    ALIGNED = 0x100
    WRITEABLE = 0x400


class Control(enum.IntEnum):
    """Slots of the pool's control block. The state it points to is zeroed in a forked child, which starts anew."""

    THREADS = 0  # workers wanted, the caller among them
    STATE = 1  # address of STATE_BYTES of memory


CONTROL_BYTES = 64
STATE_BYTES = 4096
POOL_RUN_SYMBOL = f"pliant.pool.run.v{POOL_ABI}"
SERIAL_RUN_SYMBOL = "pliant.serial.run"
SEAL_PREFIX = "pliant.contract."  # and the fingerprint of the contract that the code was made with
