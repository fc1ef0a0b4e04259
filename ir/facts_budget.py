"""What a proof may cost, counted in terms visited: the answer is the same on every machine, however fast.

Past its budget a question ends as not proven, and a fact that is being learnt is used as far as it was worked out. Both
are sound: less is known, nothing wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

QUESTION = 150_000  # of one question: less than half a second; the hardest proofs of the tests take a tenth
LEARN = 50_000  # of one fact and all that follows from it
LEARN_ALL = 400_000  # of all facts together, but for ...
LEARN_LEAST = 500  # ... what every fact may take
CONFLICT = 300_000  # of a search for facts that contradict one another, and of one for the smallest such set
EXPLAIN = 3_000  # facts in all sets that are looked at for the smallest one


@dataclass
class Budget:
    """`left` below zero: nothing more is done."""

    left: int

    def spend(self, cost: int) -> bool:
        """Whether there was that much left."""
        self.left -= cost
        return self.left >= 0

    @property
    def out(self) -> bool:
        return self.left < 0
