"""The six models with `save_pretrained`, `from_pretrained` and `push_to_hub` of the Hugging Face Hub.

    from sparsam.adapters.hub import SAM

    model = SAM(8, 8, memory_size=1_000_000)
    model.save_pretrained("my-model")              # a folder: weights, config, model card
    model = SAM.from_pretrained("my-model")        # or "owner/name" on the Hub
    model.push_to_hub("owner/name")

These are the classes of `sparsam` with the Hub's own mixin; `sparsam.load("hf:owner/name")` loads what they
wrote, and so does `sparsam.load("my-model")`. Needs `pip install ".[hub]"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub import ModelHubMixin, hf_hub_download

import sparsam
from sparsam import model_description
from sparsam.weights import read, save

__all__ = ["DAM", "DNC", "LSTM", "NTM", "SAM", "SDNC"]

FILE = "model.safetensors"


class OnHub(  # type: ignore[call-arg]
    ModelHubMixin,
    library_name="sparsam",
    tags=["memory-augmented-neural-network", "sparse-access-memory"],
    paper_url="https://arxiv.org/abs/1610.09027",
):
    """What the mixin leaves to the library: how a model is written to a folder and read from one."""

    name: str

    def _save_pretrained(self, save_directory: Path) -> None:
        save(self, save_directory / FILE)  # type: ignore[arg-type]
        described = model_description.describe(self)  # type: ignore[arg-type]
        (save_directory / "config.json").write_text(f"{described.to_json()}\n")

    @classmethod
    def from_pretrained(  # the mixin's own takes arguments from config.json, which nobody has checked
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        **changes: Any,
    ) -> Any:
        """The model of a folder or of a repository on the Hub; `changes` replace arguments of its constructor."""
        model_id = str(pretrained_model_name_or_path)
        file = Path(model_id) / FILE
        if not file.exists():
            file = Path(
                hf_hub_download(
                    model_id,
                    FILE,
                    revision=revision,
                    cache_dir=cache_dir,
                    force_download=force_download,
                    local_files_only=local_files_only,
                    token=token,
                )
            )
        weights = read(file)
        described = weights.description
        if described is None or described.name != cls.name:
            raise ValueError(f"{model_id}: expected weights of a {cls.__name__}, got {described and described.name!r}")
        model = cls(**{**described.arguments, **weights.settings(), **changes})
        model.load_state_dict(weights.tensors)  # type: ignore[attr-defined]
        return model.eval()  # type: ignore[attr-defined]


class LSTM(OnHub, sparsam.LSTM):
    __doc__ = sparsam.LSTM.__doc__


class NTM(OnHub, sparsam.NTM):
    __doc__ = sparsam.NTM.__doc__


class DAM(OnHub, sparsam.DAM):
    __doc__ = sparsam.DAM.__doc__


class SAM(OnHub, sparsam.SAM):
    __doc__ = sparsam.SAM.__doc__


class DNC(OnHub, sparsam.DNC):
    __doc__ = sparsam.DNC.__doc__


class SDNC(OnHub, sparsam.SDNC):
    __doc__ = sparsam.SDNC.__doc__
