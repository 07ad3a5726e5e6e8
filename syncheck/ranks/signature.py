"""The properties of a collective that the ranks of a group must agree on, and digests of sequences of collectives."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

_PRIME = (1 << 61) - 1
_BASE = 0x9E3779B97F4A7C1 % _PRIME


@dataclass(frozen=True)
class Group:
    """A process group, or one direction between two of its ranks: send and receive are matched separately.

    Attributes:
        name: the name, equal in all members.
        ranks: the members' ranks in the job, in the order of the group.
    """

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """One collective, reduced to the properties that the ranks of its group must agree on.

    Attributes:
        operation: its name in torch.distributed; "send or receive" for both ends of a message.
        tensors: types and shapes of the tensors that must be equal in all ranks, such as "float32 [4, 4]".
        reduce: the reduce operation, such as "sum"; "" if there is none.
        root: the group rank that sends or receives; -1 if there is none.
        pairs: (from, to, elements) per transfer between this rank and another, by group ranks: sent and received counts
            must match.
    """

    operation: str
    tensors: str = ""
    reduce: str = ""
    root: int = -1
    pairs: tuple[tuple[int, int, int], ...] = ()

    @cached_property
    def digest(self) -> int:
        """A 64-bit digest of the properties that must be equal."""
        return _digest(f"{self.operation}|{self.tensors}|{self.reduce}|{self.root}")

    def differences(self, other: "Signature") -> list[str]:
        """Return descriptions of the differences, most important first."""
        if self.operation != other.operation:
            return ["operation"]
        return [what for name, what in _FIELDS.items() if getattr(self, name) != getattr(other, name)]

    def __str__(self) -> str:
        root = f"root {self.root}" if self.root >= 0 else ""
        return f"{self.operation}({', '.join(filter(None, (self.tensors, self.reduce, root)))})"

    def data(self) -> list[Any]:
        """Return the signature as JSON-serializable data."""
        return [self.operation, self.tensors, self.reduce, self.root, self.pairs]

    @classmethod
    def of(cls, data: Any) -> "Signature":
        """Return the signature from the result of `data`.

        Raises:
            ValueError, TypeError: the data is damaged.
        """
        operation, tensors, reduce, root, pairs = data
        return cls(
            str(operation), str(tensors), str(reduce), int(root), tuple((int(a), int(b), int(n)) for a, b, n in pairs)
        )


_FIELDS = {"tensors": "shapes or types", "reduce": "reduce operation", "root": "root"}


@dataclass
class Digest:
    """A rolling digest of collectives; equal sequences have equal digests, regardless of the rank.

    Attributes:
        count: number of collectives.
        same: digest of the properties that must be equal.
        balance: digest of the transfers, which must cancel out over all ranks of a group: sent ones are added,
            received ones subtracted.
    """

    count: int = 0
    same: int = 0
    balance: int = 0

    def add(self, signature: Signature, me: int) -> None:
        """Add a collective.

        Args:
            signature: its signature.
            me: this rank, in the group.
        """
        self.same = (self.same * _BASE + signature.digest) % _PRIME
        for sender, receiver, elements in signature.pairs:
            piece = _digest(f"{self.count}|{sender}|{receiver}|{elements}")
            self.balance += (sender == me) * piece - (receiver == me) * piece
        self.balance &= (1 << 64) - 1
        self.count += 1


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
