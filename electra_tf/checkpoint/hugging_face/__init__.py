"""Networks as Hugging Face's transformers keeps them, read and written."""
