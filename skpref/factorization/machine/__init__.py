"""Variational factorization machines."""
