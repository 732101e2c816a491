"""Training: typed configs, the loop, checkpoints, the curriculum, parallel forms."""

from __future__ import annotations

from sparsam.training.config import (
    CurriculumConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    TaskConfig,
)
from sparsam.training.curriculum import Curriculum
from sparsam.training.evaluate import evaluate
from sparsam.training.folder import RunFolder
from sparsam.training.learner import NonFiniteLoss
from sparsam.training.loop import Outcome, train
from sparsam.training.saved import load_model

__all__ = [
    "Curriculum",
    "CurriculumConfig",
    "ModelConfig",
    "NonFiniteLoss",
    "OptimizerConfig",
    "Outcome",
    "RunConfig",
    "RunFolder",
    "TaskConfig",
    "evaluate",
    "load_model",
    "train",
]
