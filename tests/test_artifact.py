"""Artifacts as files: what is written comes back, loads without a compiler, and what is damaged is refused plainly."""

import contextlib
import json
import os
import random
import stat
import struct
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pliant.ir.loops import Program
from pliant.runtime import ArgumentError, Artifact, Executable, LoadError, PliantError, SaveError, load
from pliant.runtime.container import CONTRACT
from pliant.runtime.cpu import architecture, missing_features, processor_flags
from pliant.runtime.cpuid import cpuid, has_feature
from pliant.runtime.weights import read_safetensors

from .runtime_programs import ADD_ONE, add_one, build, executable, rows, tensor, weighted_artifact

ROOT = Path(__file__).resolve().parent.parent


def up(h: int = 4, k: int = 3) -> np.ndarray[Any, Any]:
    return np.arange(h * 2 * k, dtype=np.float32).reshape(h, 2 * k)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifacts") / "plain.pliant"
    build(add_one(), ADD_ONE).save(path)
    return path


@pytest.fixture(scope="module")
def with_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifacts") / "weights.pliant"
    weighted_artifact({"up": up()}).save(path)
    return path


# -- there and back


def test_a_saved_artifact_computes_the_same(plain: Path) -> None:
    exe = load(plain)
    np.testing.assert_array_equal(exe(rows(5)), rows(5) + 1)
    assert list(exe) == ["main"]
    np.testing.assert_array_equal(exe["main"](rows(2)), rows(2) + 1)
    np.testing.assert_array_equal(exe["@main"](rows(2)), rows(2) + 1)
    assert "main" in exe
    assert "other" not in exe
    with pytest.raises(ArgumentError, match="no function @other; there are: @main"):
        exe["other"]


def test_saving_what_was_loaded_gives_the_same_bytes(with_weights: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.pliant"
    load(with_weights).save(again)
    assert again.read_bytes() == with_weights.read_bytes()
    load(again).save(again)  # over the file that is mapped
    assert again.read_bytes() == with_weights.read_bytes()


def test_any_zip_reader_reads_it(with_weights: Path) -> None:
    with zipfile.ZipFile(with_weights) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        assert {CONTRACT, "objects/host.o", "objects/kernels.o", "objects/pool.o", "weights/up", "plan.json"} <= names
        top = json.loads(archive.read(CONTRACT))
        assert archive.read("weights/up") == up().tobytes()
    assert top["format"] == 1
    assert top["contract"]["functions"][0]["params"][0]["dims"] == []
    assert top["contract"]["load"]["steps"][1]["value"] == "up.1"


def test_members_are_aligned_and_mapped(with_weights: Path) -> None:
    artifact = Artifact.open(with_weights)
    array = artifact.tensor(artifact.contract.weights[0])
    assert array is not None
    assert array.ctypes.data % 64 == 0
    assert not array.flags.owndata
    with open("/proc/self/maps", encoding="ascii") as maps:
        lines = [line for line in maps if str(with_weights) in line]
    spans = [[int(part, 16) for part in line.split()[0].split("-")] for line in lines]
    assert any(start <= array.ctypes.data < end for start, end in spans)


def test_inspect(with_weights: Path) -> None:
    seen = load(with_weights).inspect()
    assert seen["members"]["weights/up"] == up().nbytes
    assert [f["name"] for f in seen["functions"]] == ["main"]
    assert seen["plan"] == {}
    json.dumps(seen)


def test_huge_members_would_be_aligned_too(with_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 50)  # of which the format has another header
    path = tmp_path / "x.pliant"
    load(with_weights).save(path)
    monkeypatch.undo()
    artifact = Artifact.open(path)
    array = artifact.tensor(artifact.contract.weights[0])
    assert array is not None
    assert array.ctypes.data % 64 == 0
    check(load(path), up())


# -- weights


def check(exe: Executable, weight: np.ndarray[Any, Any]) -> None:
    y, z = exe(0.5)
    np.testing.assert_array_equal(y, weight)
    assert z[()] == 7


def test_weights_in_the_artifact_and_weights_that_are_given(with_weights: Path) -> None:
    check(load(with_weights), up())
    check(load(with_weights, {"up": up(6, 5), "unused": [1]}), up(6, 5))
    check(load(with_weights).with_weights({"up": up(2, 1)}), up(2, 1))
    check(load(with_weights, {"up": np.asfortranarray(up())}), up())


def test_weights_of_torch(with_weights: Path) -> None:
    torch = pytest.importorskip("torch")
    check(load(with_weights, {"up": torch.from_numpy(up(8, 2))}), up(8, 2))
    check(load(with_weights, {"up": torch.nn.Parameter(torch.from_numpy(up(8, 2)))}), up(8, 2))


def test_weights_of_a_safetensors_file(with_weights: Path, tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    half = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    save_file({"up": up(6, 2), "half": half, "none": np.zeros((0, 3), np.int64)}, tmp_path / "w.safetensors")
    check(load(with_weights, tmp_path / "w.safetensors"), up(6, 2))
    check(load(with_weights, str(tmp_path / "w.safetensors")), up(6, 2))
    arrays = read_safetensors(tmp_path / "w.safetensors")
    np.testing.assert_array_equal(arrays["half"], half)
    assert arrays["half"].dtype == ml_dtypes.bfloat16
    assert arrays["none"].shape == (0, 3)


def test_weights_that_are_refused() -> None:
    artifact = weighted_artifact()
    for weights, said in (
        (None, r"needs weights that were not given: up: f32\[h, 2\*k\]"),
        ({"down": up()}, r"not given: up: f32\[h, 2\*k\]; given are: down"),
        ({"up": up().astype(np.float64)}, "weight @up has elements of type float64"),
        ({"up": up()[0]}, r"weight @up has rank 1, but f32\[h, 2\*k\] has rank 2"),
        ({"up": up()[:, :5]}, r"weight @up: dimension 1: 2 does not divide up.1 = 5"),
        ({"up": up(3)}, r"weight @up: dimension 0 is 3, but h % 2 == 0"),
        ({"up": "text"}, "weight @up is a str"),
        ("/no/such/file.safetensors", "/no/such/file.safetensors does not exist"),
        (17, "weights are given as a int"),
    ):
        with pytest.raises(LoadError, match=said):
            Executable(artifact, weights)  # type: ignore[arg-type]


def test_weights_can_come_later(tmp_path: Path) -> None:
    exe = Executable(weighted_artifact(), lazy=True)
    with pytest.raises(LoadError, match="needs weights that were not given"):
        exe(0.5)
    with pytest.raises(LoadError, match="needs weights that were not given"):
        exe["main"]
    exe.save(tmp_path / "bare.pliant")
    with pytest.raises(LoadError, match=r"bare.pliant needs weights that were not given"):
        load(tmp_path / "bare.pliant")
    check(load(tmp_path / "bare.pliant", {"up": up()}), up())
    check(exe.with_weights({"up": up()}), up())


def test_constant_sizes_of_weights_are_checked_without_a_load_program() -> None:
    program = Program((tensor("w", "f32", 2, 3),), (), (), None, add_one().functions)
    program = replace(program, kernels=add_one().kernels)
    artifact = build(program, ADD_ONE)
    np.testing.assert_array_equal(Executable(artifact, {"w": rows(2, 3)})(rows(1)), rows(1) + 1)
    with pytest.raises(LoadError, match=r"weight @w: dimension 1 is 4, expected 3 \(w: f32\[2, 3\]\)"):
        Executable(artifact, {"w": rows(2, 4)})


@pytest.mark.parametrize("seed", range(4))
def test_damaged_safetensors_files(tmp_path: Path, seed: int) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    path = tmp_path / "w.safetensors"
    save_file({"up": up(), "other": rows(3)}, path)
    good, rng = path.read_bytes(), random.Random(seed)
    for _ in range(100):
        data = bytearray(good)
        data[rng.randrange(120)] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            for array in read_safetensors(path).values():
                array.tobytes()
        except LoadError:
            pass


# -- refusals


def rewrite(source: Path, target: Path, change: Any, checksums: bool = True) -> Path:
    """A copy in which `change(top, members)` has changed the contract or members; checksums are made anew."""
    from pliant.runtime import container

    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    top = json.loads(members.pop(CONTRACT))
    change(top, members)
    container.write(target, top["contract"], members)
    if not checksums:
        with zipfile.ZipFile(target) as archive:
            fresh = {name: archive.read(name) for name in archive.namelist()}
        fresh[CONTRACT] = json.dumps(top).encode()
        with zipfile.ZipFile(target, "w") as archive:
            for name, data in fresh.items():
                archive.writestr(name, data)
    return target


def refused(path: Path, said: str) -> None:
    with pytest.raises(LoadError, match=said) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_what_is_no_artifact(tmp_path: Path) -> None:
    path = tmp_path / "x.pliant"
    refused(path, "does not exist")
    refused(tmp_path, "is a folder")
    for data in (b"", b"hello", b"PK\3\4" + bytes(50), bytes(1000)):
        path.write_bytes(data)
        refused(path, "is no artifact, or is damaged")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "hello")
    refused(path, f"is no artifact: it has no {CONTRACT}")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CONTRACT, "{}" * 100)
    refused(path, "compressed or encrypted")
    for text in ("", "{", "[]", "{}", '{"format": "1"}', '{"format": 1}', "[" * 100000):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(CONTRACT, text)
        refused(path, "contract")


def test_truncated(plain: Path, tmp_path: Path) -> None:
    data, path = plain.read_bytes(), tmp_path / "x.pliant"
    for size in range(0, len(data), max(1, len(data) // 50)):
        path.write_bytes(data[:size])
        refused(path, "damaged")


def test_another_format_version(plain: Path, tmp_path: Path) -> None:
    def newer(top: Any, members: Any) -> None:
        top["format"] = 2

    refused(rewrite(plain, tmp_path / "x.pliant", newer, checksums=False), "has format version 2.*reads 1.*compile it")

    def frames(top: Any, members: Any) -> None:
        top["contract"]["frame_abi"] = 99

    refused(rewrite(plain, tmp_path / "y.pliant", frames), "interface 99")


def test_another_machine(plain: Path, tmp_path: Path) -> None:
    def features(top: Any, members: Any) -> None:
        top["contract"]["machine"]["features"] = ["avx2", "sse4a", "fma4", "64bit", "prefer-256-bit"]

    refused(rewrite(plain, tmp_path / "x.pliant", features), "uses .*fma4, which this processor lacks")

    def arm(top: Any, members: Any) -> None:
        top["contract"]["machine"]["triple"] = "riscv64-unknown-linux-gnu"

    refused(rewrite(plain, tmp_path / "y.pliant", arm), "holds code for riscv64, and this machine is")


def test_features_are_found_in_cpuinfo() -> None:
    flags = processor_flags("processor : 0\nflags\t\t: fpu pni sse4_2 abm avx512_vnni\n\nprocessor : 1\nflags : none\n")
    wanted = ("sse3", "sse4.2", "lzcnt", "avx512vnni", "avx2", "bmi", "64bit", "unheard-of")
    assert missing_features(wanted, "x86_64", flags) == ["avx2", "bmi"]
    arm = processor_flags("processor : 0\nFeatures : fp asimd atomics\n")
    assert missing_features(("neon", "lse", "sve"), "aarch64", arm) == ["sve"]
    assert not missing_features(("sse3",), architecture(), processor_flags())


@pytest.mark.skipif(architecture() != "x86_64", reason="x86 only")
def test_the_processor_says_what_the_system_says() -> None:
    flags = processor_flags()
    vendor = struct.pack("<3I", *(cpuid(0)[i] for i in (1, 3, 2)))
    with open("/proc/cpuinfo", encoding="ascii") as text:
        assert any(line.startswith("vendor_id") and line.split()[-1] == vendor.decode() for line in text)
    known = {"avx512vnni": "avx512_vnni", "avxvnni": "avx_vnni", "gfni": "gfni", "avx512vbmi": "avx512vbmi"}
    for name, flag in known.items():
        if flag in flags:
            assert has_feature(name, flags), name
    assert not has_feature("avx512vnni", frozenset({"avx2"}))
    assert not has_feature("fma4", flags)


@pytest.mark.parametrize("member", ["objects/host.o", "objects/pool.o", "weights/up", "consts/bias", "plan.json"])
def test_one_changed_byte_of_a_member(with_weights: Path, tmp_path: Path, member: str) -> None:
    data = bytearray(with_weights.read_bytes())
    with zipfile.ZipFile(with_weights) as archive:
        info = archive.getinfo(member)
    start = info.header_offset + 30 + int.from_bytes(data[info.header_offset + 26 :][:2], "little")
    start += int.from_bytes(data[info.header_offset + 28 :][:2], "little")
    data[start + info.file_size // 2] ^= 1
    path = tmp_path / "x.pliant"
    path.write_bytes(data)
    refused(path, f"the checksum of `{member}` is wrong")


def test_members_that_are_missing_or_too_many(plain: Path, tmp_path: Path) -> None:
    def drop(top: Any, members: Any) -> None:
        del members["objects/kernels.o"]

    refused(rewrite(plain, tmp_path / "x.pliant", drop), "objects/kernels.o is missing")
    path = tmp_path / "y.pliant"
    path.write_bytes(plain.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.txt", "hello")
    refused(path, "missing or too many: more.txt")


def test_malformed_contracts(plain: Path, tmp_path: Path) -> None:
    """Every value of the contract, replaced by one of another kind, or left out."""
    with zipfile.ZipFile(plain) as archive:
        top = json.loads(archive.read(CONTRACT))

    def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            yield (*path, key)
            yield from places(inner, (*path, key))

    rng = random.Random(1)
    chosen = [p for p in places(top["contract"]) if rng.random() < 0.25]
    for number, place in enumerate(chosen):

        def change(top: Any, members: Any, place: Any = place, number: int = number) -> None:
            inner = top["contract"]
            for key in place[:-1]:
                inner = inner[key]
            old = inner[place[-1]]
            if number % 3 == 0:
                inner[place[-1]] = {"odd": 1.5}
            elif number % 3 == 1:
                del inner[place[-1]]
            else:
                inner[place[-1]] = {str: "odd", int: 99, bool: not old, list: [], dict: {}}.get(type(old), 7)

        path = rewrite(plain, tmp_path / "x.pliant", change)
        with contextlib.suppress(LoadError):
            load(path)


@pytest.mark.parametrize("seed", range(6))
def test_flipped_bits_and_random_zips(with_weights: Path, tmp_path: Path, seed: int) -> None:
    """Only LoadError may come out, and what loads in spite of a flipped bit computes the same."""
    good, path, rng = with_weights.read_bytes(), tmp_path / "x.pliant", random.Random(seed)
    refusals = 0
    for _ in range(60):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 1, 5, 50))):
            # the directory of the archive stands at its end, the headers of members where names are
            at = rng.randrange(len(data) - 1200, len(data)) if rng.random() < 0.5 else rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        if rng.random() < 0.1:
            data = bytearray(rng.randbytes(rng.randrange(400)) + b"PK\5\6" + rng.randbytes(18))
        path.write_bytes(data)
        try:
            check(load(path), up())
        except LoadError:
            refusals += 1
    assert refusals > 20


# -- writing


def test_a_file_is_written_whole_or_not_at_all(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.pliant"
    path.write_bytes(b"before")
    exe = load(plain)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match="cannot be written: No space left"):
        exe.save(path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["x.pliant"]
    monkeypatch.undo()
    with pytest.raises(SaveError, match="No such file"):
        exe.save(tmp_path / "nowhere" / "x.pliant")
    exe.save(path)
    assert path.read_bytes() == plain.read_bytes()
    assert os.listdir(tmp_path) == ["x.pliant"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_regular_file_is_written_into_and_stays(plain: Path, tmp_path: Path) -> None:
    exe, data = load(plain), plain.read_bytes()
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    exe.save(pipe)
    reader.join()
    assert received == [data]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    refused(pipe, "no regular file")  # and does not wait for a writer

    for before in (None, b"before"):
        if before is not None:
            target.write_bytes(before)
            target.chmod(0o640)
        link.unlink(missing_ok=True)
        link.symlink_to("target")
        exe.save(link)
        assert link.is_symlink()
        assert target.read_bytes() == data
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    link.unlink()
    link.symlink_to("link")
    with pytest.raises(SaveError, match=r"link cannot be written: Too many levels"):
        exe.save(link)
    with pytest.raises(SaveError, match=r"cannot be written: Is a directory"):
        exe.save(tmp_path)
    exe.save(tmp_path / ("x" * 255))  # as long as a name may be
    if Path("/dev/full").is_char_device():
        link.unlink()
        link.symlink_to("/dev/full")
        with pytest.raises(SaveError, match=r"link cannot be written: No space left"):
            exe.save(link)
        assert Path("/dev/full").is_char_device()


def test_a_file_cut_short_in_place_does_no_harm_where_it_was_read_into_memory(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path, weights = tmp_path / "x.pliant", tmp_path / "w.safetensors"
    weighted_artifact().save(path)
    save_file({"up": up()}, weights)
    exe = load(path, weights, mmap=False)
    for file in (path, weights):
        os.truncate(file, 0)
    check(exe, up())
    assert exe.artifact.inspect()["members"]["consts/bias"] == 4


# -- without a compiler

BLOCKED = ("lark", "sympy", "llvmlite", "safetensors", "click", "rich", "torch")
LOADER = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        ours = ("pliant.ir", "pliant.passes", "pliant.compiler", "pliant.frontends")
        if name.partition(".")[0] in {blocked} or name.startswith(ours):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Block())
import numpy as np
from pliant.runtime import load
y, z = load(sys.argv[1])(0.5)
print(y.sum(), z)
"""


def test_loading_needs_neither_compiler_nor_parser(with_weights: Path) -> None:
    code = LOADER.format(blocked=BLOCKED)
    result = subprocess.run([sys.executable, "-c", code, with_weights], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(up().sum()), "7.0"]


def test_errors_are_of_one_family() -> None:
    from pliant.runtime import errors

    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    assert len(kinds) >= 9
    assert all(issubclass(k, PliantError) for k in kinds)
    with pytest.raises(TypeError):  # what Python would raise is caught by what Python would be asked for
        executable(add_one(), ADD_ONE)()
