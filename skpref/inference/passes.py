"""Checkpoints of loops over passes: the loop's arrays by name, in the file of a chain of its bounds."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._checks import require
from skpref.inference.checkpoint import Writer, content_digest, read_checkpoint
from skpref.inference.gibbs import Chain
from skpref.inference.scale import GammaScale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from skpref.inference.checkpoint import Checkpoint
    from skpref.inference.scale import Scale
    from skpref.likelihoods import Likelihood

_Arrays = dict[str, "NDArray[Any]"]


class Passes:
    """Resuming and saving of a loop; without a checkpoint it does neither."""

    def __init__(
        self, checkpoint: Checkpoint | None, start: Mapping[str, NDArray[Any]], sizes: Mapping[str, int] | None = None
    ) -> None:
        """Identify a run by its arrays at the start; `sizes` are of further arrays, which the data determine."""
        if checkpoint is not None:
            checkpoint = replace(checkpoint, key=content_digest({checkpoint.key: list(start)}, list(start.values())))
        self._checkpoint, self._writer = checkpoint, Writer(checkpoint)
        self._start, self._sizes = dict(start), {name: (size,) for name, size in (sizes or {}).items()}

    def resumed(self) -> tuple[_Arrays, list[float]] | None:
        """Return the arrays and bounds of an interrupted run; None if there is no file of one."""
        if self._checkpoint is None:
            return None
        chains = read_checkpoint(self._checkpoint, [Chain(self._start)], self._check)
        return None if chains is None else (dict(chains[0].state), chains[0].trace["bound"])

    def _check(self, start: Chain, chain: Chain) -> None:
        """Raise DataError unless a loop from this start can reach these arrays."""
        expected = {name: array.shape for name, array in start.state.items()} | self._sizes
        require(chain.state.keys() == expected.keys(), chain, "state", f"must have {', '.join(expected)}")
        for name, shape in expected.items():
            array = chain.state[name]
            sound = array.dtype == np.float64 and array.shape[name == "path" :] == shape[name == "path" :]
            require(sound, chain, "state", f"has {name} of {array.shape} {array.dtype}, expected {shape}")
            require(bool(np.isfinite(array).all()), chain, "state", f"has {name} that is not finite")
        bounds: Any = chain.trace.get("bound")
        sound = chain.trace.keys() == {"bound"} and isinstance(bounds, list) and len(bounds) == chain.sweep > 0
        require(sound and bool(np.isfinite(bounds).all()), chain, "trace", "must hold a finite bound of each pass")

    def write(self, bounds: list[float], arrays: Callable[[], Mapping[str, NDArray[Any]]]) -> None:
        """Save the arrays if it is time to."""
        if self._writer.is_due():
            self._writer.write([Chain(arrays(), len(bounds), trace={"bound": bounds})])

    def finish(self) -> None:
        """Remove the file of a run that is complete."""
        self._writer.finish()


def arrays_of_scales(scales: Mapping[str, Scale]) -> _Arrays:
    """Return the learnt values of scales."""
    learnt = {name: scale for name, scale in scales.items() if isinstance(scale, GammaScale)}
    return {f"scale {name}": np.array([scale.shape, scale.rate]) for name, scale in learnt.items()}


def with_arrays_of_scales(scales: Mapping[str, Scale], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Scale]:
    """Return the scales with their learnt values."""
    found = dict(scales)
    for name, scale in scales.items():
        if isinstance(scale, GammaScale):
            shape, rate = arrays[f"scale {name}"].tolist()
            found[name] = replace(scale, shape=shape, rate=rate)
    return found


def arrays_of_likelihood(likelihood: Likelihood) -> _Arrays:
    """Return the parameters that a likelihood learns."""
    if not likelihood.has_parameters:
        return {}
    values = [np.atleast_1d(np.asarray(getattr(likelihood, field.name), np.float64)) for field in fields(likelihood)]
    return {"likelihood": np.concatenate(values)}


def with_arrays_of_likelihood(likelihood: Likelihood, arrays: Mapping[str, NDArray[Any]]) -> Likelihood:
    """Return the likelihood with these parameters."""
    if not likelihood.has_parameters:
        return likelihood
    held, values = arrays["likelihood"].tolist(), dict[str, Any]()
    for field in fields(likelihood):
        old = getattr(likelihood, field.name)
        size = len(old) if isinstance(old, tuple) else 1
        own, held = held[:size], held[size:]
        values[field.name] = tuple(own) if isinstance(old, tuple) else type(old)(own[0])
    return replace(likelihood, **values)
