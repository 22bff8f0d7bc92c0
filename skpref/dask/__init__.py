"""Collections of Dask as the X of estimators: shards on the workers of a cluster."""
