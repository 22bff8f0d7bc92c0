"""Numerical ground floor: log Phi, quadrature, Cholesky factors and triangular solves, random generators."""
