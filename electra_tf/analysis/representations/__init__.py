"""Representations by layer: similarity, anisotropy, probes."""
