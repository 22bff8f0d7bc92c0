"""Max-margin matrix factorization by Gibbs sampling."""
