"""The loader of object files: what it links computes what it should, and what is damaged is refused, not run."""

import ctypes
import random
import struct

import numpy as np
import pytest

from pliant.compiler.codegen.llvm import compile_ir, resolve
from pliant.compiler.target import Target
from pliant.runtime.errors import LoadError
from pliant.runtime.link import Image, c_library, link

from .runtime_programs import compiled

TABLES = """
@table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@counter = internal global i64 5
@zeros = internal global [100 x i64] zeroinitializer
@where = internal global ptr getelementptr (i8, ptr @table, i64 16)
@shared = global i64 11

define double @pick(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %p
  ret double %v
}
define double @through() {
  %p = load volatile ptr, ptr @where
  %v = load double, ptr %p
  ret double %v
}
define i64 @count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  %p = getelementptr i64, ptr @zeros, i64 %old
  %z = load i64, ptr %p
  %r = add i64 %new, %z
  ret i64 %r
}
define i64 @twice(i64 %x) {
  %y = shl i64 %x, 1
  ret i64 %y
}
"""

CALLER = """
@shared = external global i64
declare i64 @twice(i64)
declare double @hypot(double, double)
declare ptr @memcpy(ptr, ptr, i64)
define i64 @quadruple(i64 %x) {
  %y = call i64 @twice(i64 %x)
  %z = call i64 @twice(i64 %y)
  ret i64 %z
}
define i64 @read_shared() {
  %v = load i64, ptr @shared
  ret i64 %v
}
define double @length(double %x, double %y) {
  %v = call double @hypot(double %x, double %y)
  ret double %v
}
define ptr @address_of_hypot() {
  ret ptr @hypot
}
"""


def call(image: Image, name: str, result: type, *args: object, types: tuple[type, ...] = ()) -> object:
    return ctypes.CFUNCTYPE(result, *types)(image.address(name))(*args)


@pytest.fixture(scope="module")
def image() -> Image:
    return link({"tables": compiled(TABLES), "caller": compiled(CALLER)})


def test_constants_data_and_zeroed_data(image: Image) -> None:
    picked = [call(image, "pick", ctypes.c_double, i, types=(ctypes.c_int64,)) for i in range(4)]
    assert picked == [1.5, 2.5, 3.5, 4.5]
    assert call(image, "through", ctypes.c_double) == 3.5
    assert [call(image, "count", ctypes.c_int64) for _ in range(3)] == [6, 7, 8]


def test_symbols_of_other_objects_and_of_the_c_library(image: Image) -> None:
    assert call(image, "quadruple", ctypes.c_int64, 10, types=(ctypes.c_int64,)) == 40
    assert call(image, "read_shared", ctypes.c_int64) == 11
    assert call(image, "length", ctypes.c_double, 3.0, 4.0, types=(ctypes.c_double,) * 2) == 5.0
    assert call(image, "address_of_hypot", ctypes.c_void_p) == c_library("hypot")


def test_code_cannot_be_written_and_data_cannot_be_run(image: Image) -> None:
    with open("/proc/self/maps", encoding="ascii") as maps:
        rows = [line.split()[:2] for line in maps]
    modes = set()
    for span, mode in rows:
        start, end = (int(part, 16) for part in span.split("-"))
        if start < image.region.address + image.region.size and end > image.region.address:
            modes.add(mode[:3])
    assert modes == {"r-x", "r--", "rw-"}


def test_a_missing_symbol_is_named() -> None:
    text = "declare void @not_anywhere_at_all()\ndefine void @f() {\n call void @not_anywhere_at_all()\n ret void\n}\n"
    with pytest.raises(LoadError, match="`caller` needs `not_anywhere_at_all`"):
        link({"caller": compiled(text)})
    with pytest.raises(LoadError, match="lacks `g`"):
        link({"tables": compiled(TABLES)}).address("g")


def test_a_symbol_defined_twice_is_refused_and_a_weak_one_gives_way() -> None:
    strong = "define i64 @f() {\n ret i64 1\n}\n"
    weak = "define weak i64 @f() {\n ret i64 2\n}\n"
    with pytest.raises(LoadError, match="`f` is defined twice"):
        link({"one": compiled(strong), "two": compiled(strong)})
    for objects in ({"one": compiled(weak), "two": compiled(strong)}, {"one": compiled(strong), "two": compiled(weak)}):
        assert call(link(objects), "f", ctypes.c_int64) == 1


def test_thread_local_data_and_constructors_are_refused() -> None:
    local = "@x = thread_local global i64 1\ndefine i64 @f() {\n %v = load i64, ptr @x\n ret i64 %v\n}\n"
    with pytest.raises(LoadError, match="thread-local"):
        link({"local": compiled(local)})
    constructor = (
        "@llvm.global_ctors = appending global [1 x {i32, ptr, ptr}] [{i32, ptr, ptr} {i32 1, ptr @f, ptr null}]\n"
        "@g = global i64 0\ndefine void @f() {\n store volatile i64 1, ptr @g\n ret void\n}\n"
    )
    with pytest.raises(LoadError, match="static constructors"):
        link({"constructor": compiled(constructor)})


def test_what_is_no_object_is_refused() -> None:
    good = compiled(TABLES)
    for bad, said in (
        (b"", "no ELF file"),
        (b"MZ" + bytes(100), "no ELF file"),
        (good[:4] + b"\x01" + good[5:], "64-bit"),
        (good[:16] + b"\x03\x00" + good[18:], "not relocatable"),
        (good[:18] + b"\x08\x00" + good[20:], "machine number 8"),
        (good[: len(good) // 2], "outside the file"),
    ):
        with pytest.raises(LoadError, match=said):
            link({"object": bad})


def test_objects_of_two_machines_are_refused() -> None:
    arm = compile_ir(TABLES, resolve(Target.parse("cpu:neoverse-n1")))
    with pytest.raises(LoadError, match="different machines"):
        link({"one": compiled(TABLES), "two": arm})


@pytest.mark.parametrize("seed", range(8))
def test_damaged_objects_are_linked_or_refused_but_never_crash(seed: int) -> None:
    """Every bit of the headers and tables may be wrong; the code is not run."""
    rng = random.Random(seed)
    good = compiled(TABLES + CALLER.replace("@shared = external global i64", "").replace("declare i64 @twice(i64)", ""))
    refused = 0
    for _ in range(150):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(64) if rng.random() < 0.3 else rng.randrange(len(data) // 2, len(data))
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            link({"object": bytes(data)}, lambda name: 0x1000)
        except LoadError:
            refused += 1
    assert refused > 30


# -- AArch64 is linked here, but not run: the instructions are decoded


def word(image: Image, address: int) -> int:
    return int(struct.unpack("<I", ctypes.string_at(address, 4))[0])


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def adrp(image: Image, address: int) -> int:
    """The page that an ADRP at `address` computes."""
    code = word(image, address)
    assert code & 0x9F000000 == 0x90000000
    pages = signed((((code >> 5) & 0x7FFFF) << 2) | ((code >> 29) & 3), 21)
    return (address & ~0xFFF) + (pages << 12)


def test_aarch64_addresses_and_branches() -> None:
    text = """
@shared = global i64 11
@far = external global i64
declare void @outside()
declare i64 @twice(i64)
define ptr @address() {
  ret ptr @shared
}
define i64 @value() {
  %v = load i64, ptr @shared
  ret i64 %v
}
define i64 @through_table() {
  %v = load i64, ptr @far
  ret i64 %v
}
define i64 @calls(i64 %x) {
  call void @outside()
  %y = call i64 @twice(i64 %x)
  ret i64 %y
}
"""
    callee = "define i64 @twice(i64 %x) {\n %y = shl i64 %x, 1\n ret i64 %y\n}\n@far = global i64 3\n"
    target = resolve(Target.parse("cpu:neoverse-n1"))
    outside = 0x123456789000
    objects = {"one": compile_ir(text, target), "two": compile_ir(callee, target)}
    image = link(objects, lambda name: outside if name == "outside" else None)

    start = image.address("through_table")
    slot = adrp(image, start) + ((word(image, start + 4) >> 10) & 0xFFF) * 8
    assert struct.unpack("<Q", ctypes.string_at(slot, 8))[0] == image.address("far")

    branches = []
    for address in range(image.address("calls"), image.address("calls") + 48, 4):
        code = word(image, address)
        if code >> 26 in (0b100101, 0b000101):  # BL, B
            branches.append(address + 4 * signed(code & 0x3FFFFFF, 26))
        if code in (0xD65F03C0,):  # RET
            break
    stub, twice = branches[:2]
    assert twice == image.address("twice")
    assert word(image, stub) == 0x58000050  # ldr x16, 8
    assert word(image, stub + 4) == 0xD61F0200  # br x16
    assert struct.unpack("<Q", ctypes.string_at(stub + 8, 8))[0] == outside

    start = image.address("address")
    code = word(image, start + 4)
    if code & 0xFFC00000 == 0x91000000:  # ADD: directly
        assert adrp(image, start) + ((code >> 10) & 0xFFF) == image.address("shared")
    else:  # LDR: by the table
        slot = adrp(image, start) + ((code >> 10) & 0xFFF) * 8
        assert struct.unpack("<Q", ctypes.string_at(slot, 8))[0] == image.address("shared")


def test_aarch64_literals_are_scaled_by_their_width() -> None:
    text = """
@f32s = internal constant [3 x float] [float 1.0, float 2.0, float 3.0]
@f64s = internal constant [3 x double] [double 1.0, double 2.0, double 3.0]
define float @single() {
  %p = getelementptr float, ptr @f32s, i64 1
  %v = load volatile float, ptr %p
  ret float %v
}
define double @twofold() {
  %p = getelementptr double, ptr @f64s, i64 2
  %v = load volatile double, ptr %p
  ret double %v
}
"""
    image = link({"one": compile_ir(text, resolve(Target.parse("cpu:neoverse-n1")))})
    for name, size, expected in (("single", 4, np.float32(2)), ("twofold", 8, np.float64(3))):
        start = image.address(name)
        load = word(image, start + 4)
        assert load & 0x3B000000 == 0x39000000, hex(load)  # LDR with a scaled immediate
        address = adrp(image, start) + ((load >> 10) & 0xFFF) * size
        assert ctypes.string_at(address, size) == expected.tobytes()
