"""A run of fine-tuning: trials, results, tables and plots."""
