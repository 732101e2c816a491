"""How the GPU kernels see a model: sizes padded to powers of two, and its weights in the order they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def power_of_two(count: int, least: int = 1) -> int:
    """The smallest power of two that is at least `count` and `least`."""
    return 1 << max(count - 1, least - 1, 0).bit_length()


@dataclass(frozen=True)
class Layout:
    """Sizes of a SAM or SDNC; the padded ones have a P (`sparsam.engines.cuda.kernels` uses these letters)."""

    H: int
    R: int
    K: int
    W: int
    KL: int  # 0 without links

    @classmethod
    def of(cls, model: Any) -> Layout:
        return cls(model.hidden_size, model.num_heads, model.k, model.word_size, getattr(model, "k_links", 0))

    @property
    def HP(self) -> int:
        return power_of_two(self.H, 32)

    @property
    def RP(self) -> int:
        return power_of_two(self.R, 2)

    @property
    def KP(self) -> int:
        return power_of_two(self.K, 16 // min(self.RP, 16))

    @property
    def WP(self) -> int:
        return power_of_two(self.W, 16)

    @property
    def groups(self) -> int:
        """Numbers per head in the interface beside the words: beta, alpha, gamma, and the three read modes."""
        return 6 if self.KL else 3

    @property
    def GP(self) -> int:
        return power_of_two(self.groups * self.RP, 32)

    @property
    def RW(self) -> int:
        return self.RP * self.WP

    @property
    def RK(self) -> int:
        return self.RP * self.KP

    @property
    def JP(self) -> int:
        """Width of [h, r]."""
        return self.HP + self.RW

    @property
    def AP(self) -> int:
        """Width of the interface."""
        return 2 * self.RW + self.GP

    @property
    def SIZE(self) -> int:
        """Entries of a write."""
        return power_of_two(self.RK + self.RP, 16)

    @property
    def ACCESSES(self) -> int:
        """Entries of a write and a read together."""
        return power_of_two(2 * self.RK + self.RP, 16)

    @property
    def KLP(self) -> int:
        return power_of_two(max(self.KL, 1), 2)

    @property
    def CP(self) -> int:
        """Candidates of a head's mixed read."""
        return power_of_two(self.KP + 2 * self.KP * self.KLP)

    @property
    def CHANGED(self) -> int:
        """Rows of P that a step can change."""
        return (self.SIZE + 1) * self.KLP

    def constants(self, names: tuple[str, ...]) -> dict[str, int]:
        """Sizes by their letters, as a kernel takes them."""
        return {name: getattr(self, name) for name in names}

    def join(self, hidden: Tensor, read: Tensor) -> Tensor:
        """[h, r] (..., JP) of h (..., H) and r (..., R, W)."""
        padded = F.pad(read, (0, self.WP - self.W, 0, self.RP - self.R)).flatten(-2)
        return torch.cat([F.pad(hidden, (0, self.HP - self.H)), padded], dim=-1)

    def split(self, joint: Tensor) -> tuple[Tensor, Tensor]:
        """The h (..., H) and r (..., R, W) of [h, r]."""
        read = joint[..., self.HP :].unflatten(-1, (self.RP, self.WP))
        return joint[..., : self.H], read[..., : self.R, : self.W]

    def unpadded(self, joint: Tensor) -> Tensor:
        """[h, r] (..., H + R W) without the padding."""
        if joint.shape[-1] == self.H + self.R * self.W:
            return joint
        hidden, read = self.split(joint)
        return torch.cat([hidden, read.flatten(-2)], dim=-1)

    def padded(self, joint: Tensor) -> Tensor:
        """The other way."""
        if joint.shape[-1] == self.JP:
            return joint
        return self.join(joint[..., : self.H], joint[..., self.H :].unflatten(-1, (self.R, self.W)))

    def pad_gates(self, gates: Tensor) -> Tensor:
        """(..., 4 H) to (..., 4 HP)."""
        if self.H == self.HP:
            return gates
        return F.pad(gates.unflatten(-1, (4, self.H)), (0, self.HP - self.H)).flatten(-2)

    def gates(self, padded: Tensor) -> Tensor:
        """(..., 4 HP) to (..., 4 H)."""
        return padded.unflatten(-1, (4, self.HP))[..., : self.H].flatten(-2)

    def recurrent(self, w_hh: Tensor, w_read: Tensor) -> Tensor:
        """(4 HP, JP) of w_hh (4 H, H) and w_read (4 H, R W)."""
        joined = self.join(w_hh, w_read.unflatten(-1, (self.R, self.W)))
        return self.pad_gates(joined.mT).mT.contiguous()

    def pad_interface(self, rows: Tensor) -> Tensor:
        """(..., A) in the model's order to (..., AP) in the kernels'."""
        words = self.R * self.W
        shape = (0, self.WP - self.W, 0, self.RP - self.R)
        parts = [
            F.pad(part.unflatten(-1, (self.R, self.W)), shape).flatten(-2)
            for part in rows[..., : 2 * words].split(words, -1)
        ]
        gates = rows[..., 2 * words : 2 * words + 3 * self.R].unflatten(-1, (3, self.R))
        if self.KL:  # the read modes come head by head
            modes = rows[..., 2 * words + 3 * self.R :].unflatten(-1, (self.R, 3)).mT
            gates = torch.cat([gates, modes], dim=-2)
        gates = F.pad(gates, (0, self.RP - self.R)).flatten(-2)
        return torch.cat([*parts, F.pad(gates, (0, self.GP - gates.shape[-1]))], dim=-1)

    def interface(self, padded: Tensor) -> Tensor:
        """(..., AP) to (..., A)."""
        words = padded[..., : 2 * self.RW].unflatten(-1, (2, self.RP, self.WP))[..., : self.R, : self.W].flatten(-3)
        gates = padded[..., 2 * self.RW : 2 * self.RW + self.groups * self.RP].unflatten(-1, (self.groups, self.RP))
        gates = gates[..., : self.R]
        parts = [words, gates[..., :3, :].flatten(-2)]
        if self.KL:
            parts.append(gates[..., 3:, :].mT.flatten(-2))
        return torch.cat(parts, dim=-1)

    def pad_reads(self, reads: Tensor, value: float) -> Tensor:
        """(B, R, K) to (B, RP, KP)."""
        return F.pad(reads, (0, self.KP - self.K, 0, self.RP - self.R), value=value)
