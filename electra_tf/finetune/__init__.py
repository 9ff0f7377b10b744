"""Fine-tuning: tasks, their heads and metrics, and the trials of a run."""
