"""Tracking of fits: the events (plain Python) and their adapters."""
