"""Tasks of the user's own: tables whose columns a configuration names."""
