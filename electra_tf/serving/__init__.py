"""SavedModels: strings in, named outputs."""
