"""The networks, their losses, their optimizer and their tokenizers."""
