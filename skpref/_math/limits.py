"""Limits of float64 and of memory that the whole package keeps."""

from typing import Final

LARGEST: Final = 1e100  # size of a number whose differences, and products with others, are finite
LARGEST_SQUARED: Final = 1e150  # size of a number that is squared
BLOCK: Final = 1 << 22  # entries of an array of which a block is made at a time: 32 MB
MOST_JOINT: Final = 10_000  # variables of a joint covariance, which then takes 0.8 GB
