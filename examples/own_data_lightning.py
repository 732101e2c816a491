"""Training on your own data with Lightning: a Dataset of sequences of different lengths, and a LightningModule.

The data: lines of text, and the question where in the alphabet the letter lies that followed the last "=". Replace
`Lines` by what you have.

    pip install lightning
    python examples/own_data_lightning.py
"""

from __future__ import annotations

import argparse
import random

import lightning
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import sparsam

LETTERS = "abcdefghijklmnopqrstuvwxyz= ?"


class Lines(Dataset[tuple[Tensor, int]]):
    """Lines such as "ab =k cd ?": numbers of the letters, and the answer (k, number 10)."""

    def __init__(self, count: int, seed: int) -> None:
        draw = random.Random(seed)
        self.lines = []
        for _ in range(count):
            words = ["".join(draw.choices(LETTERS[:26], k=draw.randint(1, 4))) for _ in range(draw.randint(2, 4))]
            answer = draw.choice(LETTERS[:26])
            words.insert(draw.randrange(len(words)), f"={answer}")
            self.lines.append((" ".join([*words, "?"]), LETTERS.index(answer)))

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        text, answer = self.lines[number]
        return torch.tensor([LETTERS.index(letter) for letter in text]), answer


def collate(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Padded letters (T, B), lengths (B,), answers (B,)."""
    letters = [entry for entry, _ in items]
    lengths = torch.tensor([len(entry) for entry in letters])
    return pad_sequence(letters), lengths, torch.tensor([answer for _, answer in items])


class Reader(lightning.LightningModule):
    def __init__(self, rate: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.embedding = nn.Embedding(len(LETTERS), 24)
        self.memory = sparsam.SAM(24, 26, hidden_size=48, memory_size=512, word_size=16, num_heads=2)

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.memory(self.embedding(letters), lengths=lengths)
        return y[lengths - 1, torch.arange(len(lengths))]  # the output at each line's last letter

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], _: int) -> Tensor:
        letters, lengths, answers = batch
        loss = nn.functional.cross_entropy(self(letters, lengths), answers)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor, Tensor], _: int) -> None:
        letters, lengths, answers = batch
        right = (self(letters, lengths).argmax(-1) == answers).float().mean()
        self.log("right", right, prog_bar=True, batch_size=len(answers))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["rate"])


def main(epochs: int = 3, lines: int = 4000, **options: object) -> float:
    lightning.seed_everything(0, verbose=False)
    training = DataLoader(Lines(lines, seed=0), batch_size=32, shuffle=True, collate_fn=collate)
    validation = DataLoader(Lines(200, seed=1), batch_size=50, collate_fn=collate)
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", gradient_clip_val=1.0, **options)  # type: ignore[arg-type]
    trainer.fit(Reader(), training, validation)
    right = float(trainer.callback_metrics["right"])
    print(f"{right:.0%} of the validation lines right (chance {1 / 26:.0%})")
    return right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    main(**vars(parser.parse_args()))
