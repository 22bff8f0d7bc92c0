"""Inference: sites, blocks, terms and the one natural-gradient loop (level 4)."""
