"""Custom tasks: tables whose columns a configuration names."""
