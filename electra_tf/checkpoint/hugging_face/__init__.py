"""Reading and writing of networks in Hugging Face's format."""
