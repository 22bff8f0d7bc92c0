"""Numerics: log Phi, quadrature, Cholesky factors and triangular solves, random generators."""
