"""Terms: how a block of latent variables enters the projections."""
