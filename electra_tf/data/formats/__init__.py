"""The formats that text comes in, each read as a stream of lines."""
