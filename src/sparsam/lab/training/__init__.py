"""Training: typed configs, the loop, checkpoints, the curriculum, parallel forms."""

from __future__ import annotations

from sparsam.lab.training.config import CurriculumConfig, ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.lab.training.curriculum import Curriculum
from sparsam.lab.training.evaluate import evaluate
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.learner import NonFiniteLoss
from sparsam.lab.training.loop import Outcome, train
from sparsam.lab.training.trained import load_model

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
