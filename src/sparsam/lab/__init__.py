"""The laboratory: tasks, data, training, recipes, plots, the viewer and the command line, on top of the library."""

from __future__ import annotations

from sparsam.model_description import InputLayer, register_input_layer


def _labelled_images() -> InputLayer:
    from sparsam.lab.tasks.omniglot.labelled_images import INPUT_LAYER

    return INPUT_LAYER


register_input_layer("labelled_images", _labelled_images)  # so that `sparsam.load` can build Omniglot's from pixels
