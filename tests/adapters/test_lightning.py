"""Lightning and Fabric need no adapter: states go through both untouched."""

from __future__ import annotations

import warnings

import pytest
import torch

import sparsam
from tests.adapters.conftest import guest

lightning = guest("lightning")
from lightning_utilities.core.apply_func import apply_to_collection  # noqa: E402

SIZES = {"input_size": 4, "output_size": 3, "hidden_size": 8, "memory_size": 32, "word_size": 5, "num_heads": 2}


@pytest.mark.parametrize("name", ["lstm", "sam", "sdnc", "ntm", "dam", "dnc"])
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed", "bf16-true"])
def test_fabric_carries_a_state_at_every_precision(name, precision):
    torch.manual_seed(0)
    sizes = {key: SIZES[key] for key in (list(SIZES)[:3] if name == "lstm" else SIZES)}
    fabric = lightning.Fabric(accelerator="cpu", devices=1, precision=precision)
    model = sparsam.build(name, **sizes)
    module, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters()))
    x = torch.randn(3, 2, 4)
    y, state = module(x)
    fabric.backward(y.square().mean())
    optimizer.step()
    optimizer.zero_grad()
    state = fabric.to_device(state.detach())
    y, after = module(x, state)
    assert type(after) is type(state) and bool(torch.isfinite(y).all())
    kind = torch.bfloat16 if "bf16" in precision else next(model.parameters()).dtype  # what Fabric gives the inputs
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
        expected = model(x.to(kind), state)[0]
    assert torch.equal(y, expected.to(torch.get_default_dtype()))


def test_a_collection_is_mapped_around_a_state():
    state = sparsam.SAM(**SIZES).initial_state(2)
    mapped = apply_to_collection({"a": [state], "b": torch.ones(2)}, torch.Tensor, torch.Tensor.double)
    assert mapped["a"][0] is state and mapped["b"].dtype == torch.float64


class Carrying(lightning.LightningModule):
    """Truncated BPTT: the state of one batch goes into the next."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.state, self.losses = sparsam.SAM(**SIZES), None, []

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        y, state = self.model(batch, self.state)
        self.state = state.detach()
        loss = y.square().mean()
        self.losses.append(float(loss))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 1e-2)


def test_the_trainer_carries_a_state(tmp_path):
    warnings.simplefilter("ignore")
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path, gradient_clip_val=1.0,
    )  # fmt: skip
    module = Carrying()
    x = torch.randn(3, 2, 4)
    trainer.fit(module, torch.utils.data.DataLoader([x] * 30, batch_size=None))
    assert len(module.losses) == 30 and module.losses[-1] < 0.5 * module.losses[0]
