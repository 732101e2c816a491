"""bAbI question answering: stories, how training stories are varied, and conversations with a trained model."""
