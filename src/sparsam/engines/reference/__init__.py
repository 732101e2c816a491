"""Plain PyTorch, one concept per file: what every engine is tested against."""
