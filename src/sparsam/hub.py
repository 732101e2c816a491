"""The six models with `save_pretrained`, `from_pretrained` and `push_to_hub` of the Hugging Face Hub.

    from sparsam.hub import SAM

    model = SAM(8, 8, memory_size=1_000_000)
    model.save_pretrained("my-model")              # a folder: weights, config, model card
    model = SAM.from_pretrained("my-model")        # or "owner/name" on the Hub
    model.push_to_hub("owner/name")

These are the classes of `sparsam` with the Hub's own mixin; `sparsam.load("hf:owner/name")` loads what they
wrote, and so does `sparsam.load("my-model")`. Needs `pip install "sparsam[hub]"`.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

from huggingface_hub import ModelHubMixin, hf_hub_download

import sparsam
from sparsam.models import MODELS
from sparsam.pretrained import MODEL_KEY, decode, encode, read

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

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        given = inspect.signature(MODELS[self.name]).bind(*arguments, **named).arguments
        self._arguments = {key: value for key, value in given.items() if key not in ("device", "dtype")}

    def _save_pretrained(self, save_directory: Path) -> None:
        from safetensors.torch import save_file

        described = {"name": self.name, "arguments": encode(self._arguments)}
        tensors = {key: value.detach().cpu().contiguous() for key, value in self.state_dict().items()}  # type: ignore[attr-defined]
        save_file(tensors, save_directory / FILE, {"format": "pt", MODEL_KEY: json.dumps(described)})
        (save_directory / "config.json").write_text(json.dumps(described, indent=2) + "\n")

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **changes: Any,
    ) -> Any:
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
        described = weights.model or {}
        if described.get("name") != cls.name:
            raise ValueError(f"{model_id}: expected weights of a {cls.__name__}, got {described.get('name')!r}")
        for key in ("name", "arguments"):  # the mixin hands the keys of config.json over as if they were arguments
            changes.pop(key, None)
        model = cls(**{**decode(described["arguments"]), **changes})
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
