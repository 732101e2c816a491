"""One-shot learning of characters: episodes, drawings and pixels."""
