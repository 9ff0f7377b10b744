"""Classification and regression of sentences and pairs."""
