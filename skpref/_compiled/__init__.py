"""All numba of the package: arrays in, arrays out; nothing else imports numba."""
