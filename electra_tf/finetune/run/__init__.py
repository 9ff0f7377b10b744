"""A run of fine-tuning: trials, results and tables."""
