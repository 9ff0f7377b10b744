"""Pre-training: data, masking, objectives, evaluation."""
