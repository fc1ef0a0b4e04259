"""An artifact: a contract, native code, and weights and constants, in memory or as a file. Loading compiles nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import container
from .arrays import Array
from .codec import MalformedError, decode, encode
from .container import Buffer
from .contract import Contract, Tensor
from .cpu import require_machine
from .dtypes import numpy_dtype
from .errors import LoadError
from .files import SaveError, path_of
from .layout import FRAME_ABI
from .weights import Weights, as_weight, given_weights

PLAN = "plan.json"


@dataclass(frozen=True, eq=False)
class Artifact:
    """`members` are the parts that the contract names, and others (`plan.json`, `ir/...`) that go along with it.

    `source` says where it came from, for messages.
    """

    contract: Contract
    members: Mapping[str, Buffer]
    source: str = "the artifact"

    @staticmethod
    def open(path: str | os.PathLike[str], *, verify: bool = True, mmap: bool = True) -> Artifact:
        """Reads a file; LoadError when it is damaged or of another format. Whether it runs here is not looked at.

        `verify=False` leaves out the checksums of code and weights. `mmap=False` reads the file into memory instead of
        mapping it: what happens to the file afterwards is then of no consequence.
        """
        data, members = container.read(path_of(path, LoadError), verify=verify, mapped=mmap)
        try:
            contract = decode(Contract, data)
        except MalformedError as error:
            raise LoadError(f"{path}: the contract is malformed: {error}") from error
        artifact = Artifact(contract, members, str(path))
        artifact._check_members()
        return artifact

    def _check_members(self) -> None:
        """Makes sure that everything the contract names is there and has its size."""
        contract = self.contract
        if contract.frame_abi != FRAME_ABI:
            raise LoadError(
                f"{self.source} has code for interface {contract.frame_abi} of calls, and this version of pliant has "
                f"{FRAME_ABI}: compile it again"
            )
        named = [*contract.objects, *([contract.pool] if contract.pool is not None else [])]
        named += [t.member for t in (*contract.weights, *contract.consts) if t.member is not None]
        missing = sorted(set(named) - self.members.keys())
        if missing:
            raise LoadError(f"{self.source} is damaged: {', '.join(missing)} is missing")
        fault = next(contract.faults(), None)
        if fault is not None:
            raise LoadError(f"{self.source} is damaged: {fault}")
        for tensor in (*contract.weights, *contract.consts):
            self.tensor(tensor)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, all or nothing; SaveError when that fails."""
        container.write(path_of(path, SaveError), encode(self.contract), self.members)

    def tensor(self, tensor: Tensor) -> Array | None:
        """The data of a weight or constant that is in the artifact, as a read-only array."""
        if tensor.member is None:
            return None
        data = self.members[tensor.member]
        dtype = numpy_dtype(tensor.dtype)
        try:
            shape = self.contract.shapes[tensor.member]
            array: Array = np.frombuffer(data, np.uint8).view(dtype).reshape(shape)
        except (ValueError, KeyError, OverflowError) as error:
            raise LoadError(
                f"{self.source} is damaged: `{tensor.name}` is not as the contract says: {error}"
            ) from error
        array.flags.writeable = False
        return array

    def text(self, member: str) -> str:
        """A member that is text (`ir/source.ir`)."""
        try:
            return bytes(self.members[member]).decode("utf-8")
        except UnicodeDecodeError as error:
            raise LoadError(f"{self.source} is damaged: `{member}` is no text: {error}") from error

    def weights(self, given: Weights | None) -> dict[str, Array]:
        """Every weight that the code needs, from those given and those in the artifact.

        LoadError when one is missing or has another element type.
        """
        arrays, missing = {}, []
        values = given_weights(given)
        for tensor in self.contract.weights:
            if tensor.name in values:
                arrays[tensor.name] = as_weight(tensor, values[tensor.name])
                continue
            stored = self.tensor(tensor)
            if stored is None:
                missing.append(f"{tensor.name}: {tensor}")
            else:
                arrays[tensor.name] = stored
        if missing:
            near = f"; given are: {', '.join(sorted(map(str, values))[:20])}" if values else ""
            raise LoadError(f"{self.source} needs weights that were not given: {', '.join(missing)}{near}")
        return arrays

    def with_weights(self, weights: Weights) -> Artifact:
        """The same artifact with these weights in it, so that it needs none when it is loaded."""
        arrays = self.weights(weights)
        members, shapes = dict(self.members), dict(self.contract.shapes)
        tensors = []
        for tensor in self.contract.weights:
            array = arrays[tensor.name]
            name = f"weights/{tensor.name}"
            members[name], shapes[name] = raw_bytes(array), array.shape
            tensors.append(replace(tensor, member=name))
        return replace(self, contract=replace(self.contract, weights=tuple(tensors), shapes=shapes), members=members)

    def require_machine(self) -> None:
        """LoadError when the code cannot run on this machine."""
        require_machine(self.contract.machine, self.source)

    def inspect(self) -> dict[str, Any]:
        """What there is to know about it, as plain data: the contract, the plan, and the size of every member."""
        sizes = {name: memoryview(data).nbytes for name, data in self.members.items()}
        try:
            plan = json.loads(bytes(self.members[PLAN])) if PLAN in self.members else None
        except ValueError as error:
            raise LoadError(f"{self.source} is damaged: `{PLAN}` is no JSON: {error}") from error
        return {**encode(self.contract), "plan": plan, "members": sizes}


def raw_bytes(array: Array) -> memoryview:
    """The elements in row-major order, little-endian, as bytes; not copied when the array is so already."""
    flat: Array = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data.toreadonly()
