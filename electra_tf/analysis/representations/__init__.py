"""Analyses of representations by layer: similarity, anisotropy, probes."""
