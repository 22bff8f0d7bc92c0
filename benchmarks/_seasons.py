"""Forecasts of seasons: games are predicted from those before their season, and the table of methods."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas as pd

    from skpref._typing import Array

    Method = Callable[[pd.DataFrame, pd.DataFrame], Array]

_LEAST = 1e-13  # probability


def in_seasons(games: pd.DataFrame, time: str, n_seasons: int) -> pd.DataFrame:
    """Return games in the order of time, in equal parts of it."""
    games = games.sort_values(time, kind="stable", ignore_index=True)
    when = games[time].astype("int64") if games[time].dtype.kind == "M" else games[time]
    share = (when - when.min()) / (when.max() - when.min())
    return games.assign(season=np.minimum((n_seasons * share).astype(int), n_seasons - 1))


def losses(method: Method, games: pd.DataFrame, seasons: Iterable[int]) -> Array:
    """Return the losses of the games of some seasons, each predicted from those before it."""
    out = []
    for season in seasons:
        train, test = games[games.season < season], games[games.season == season]
        p = np.clip(method(train, test), _LEAST, 1.0 - _LEAST)
        out.append(-(test.won * np.log(p) + (1.0 - test.won) * np.log1p(-p)).to_numpy(dtype=float))
    return np.concatenate(out)


def tuned(
    make: Callable[..., Method], values: Iterable[tuple[float, ...]], games: pd.DataFrame, seasons: Sequence[int]
) -> Method:
    """Return the method at its best values on some seasons."""
    return make(*min(values, key=lambda value: losses(make(*value), games, seasons).mean()))


def print_table(methods: Mapping[str, Callable[[], Method]], games: pd.DataFrame, seasons: list[int]) -> None:
    """Print mean losses, differences to the first method with standard errors, and CPU seconds."""
    first = None
    for label, make in methods.items():
        begin = time.process_time()
        method = make()
        found = time.process_time()
        loss = losses(method, games, seasons)
        end, first = time.process_time(), loss if first is None else first
        difference, error = (loss - first).mean(), (loss - first).std() / np.sqrt(loss.size)
        seconds = f"{end - found:7.1f} s, {found - begin:7.1f} s to tune"
        print(f"  {label:28} {loss.mean():.4f}  {difference:+.4f} +- {error:.4f}  {seconds}", flush=True)
