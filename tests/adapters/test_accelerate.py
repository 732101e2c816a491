"""accelerate, and with it the Hugging Face Trainer, need no adapter."""

from __future__ import annotations

import pytest
import torch

import sparsam
from tests.adapters.conftest import guest

accelerate = guest("accelerate")
from accelerate.utils import send_to_device  # noqa: E402


def test_a_state_is_sent_whole():
    torch.manual_seed(0)
    model = sparsam.SDNC(4, 3, hidden_size=8, memory_size=32, word_size=5, num_heads=2)
    x = torch.randn(5, 2, 4)
    state = model(x)[1].detach()
    sent = send_to_device({"x": x, "state": [state]}, "cpu")
    assert torch.equal(model(sent["x"], sent["state"][0])[0], model(x, state)[0])


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_loop_carries_a_state(precision):
    torch.manual_seed(0)
    accelerate.state.AcceleratorState._reset_state(True)
    run = accelerate.Accelerator(cpu=True, mixed_precision=precision)
    model = sparsam.SAM(4, 3, hidden_size=8, memory_size=32, word_size=5, num_heads=2)
    model, optimizer = run.prepare(model, torch.optim.Adam(model.parameters(), 1e-2))
    x, state, losses = torch.randn(3, 2, 4), None, []
    for _ in range(20):
        y, state = model(x, state)
        loss = y.square().mean()
        run.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        state = state.detach()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


class ForTrainer(torch.nn.Module):
    """What `transformers.Trainer` trains: keywords in, a loss and outputs out."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = sparsam.SAM(4, 3, hidden_size=8, memory_size=32, word_size=5, num_heads=2, batch_first=True)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        y, _ = self.memory(x)
        return {"loss": (y - labels).square().mean(), "logits": y}


def test_the_trainer_of_transformers(tmp_path):
    transformers = guest("transformers")
    items = [{"x": torch.randn(5, 4), "labels": torch.zeros(5, 3)} for _ in range(16)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, num_train_epochs=2, report_to=[], use_cpu=True, save_steps=4
    )
    trainer = transformers.Trainer(ForTrainer(), arguments, train_dataset=items, eval_dataset=items)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
    assert (tmp_path / "checkpoint-4").is_dir()
