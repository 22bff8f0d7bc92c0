"""The kinds of data that the command line learns from, one module a kind."""
