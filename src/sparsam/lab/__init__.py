"""The laboratory: tasks, data, training, recipes, plots, the viewer and the command line, on top of the library."""

# Registers the input layer of Omniglot from pixels, so that `sparsam.load` can build it.
from sparsam.lab.tasks.omniglot import labelled_images as labelled_images
