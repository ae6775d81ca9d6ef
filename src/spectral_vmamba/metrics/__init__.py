"""Numbers about models and their answers: scores, rotation, FLOPs, the model catalog, the environment."""
