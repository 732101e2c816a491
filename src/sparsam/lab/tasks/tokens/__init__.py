"""Tasks over tokens, for models with an embedding."""
