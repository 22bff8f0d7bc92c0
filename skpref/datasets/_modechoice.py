"""Real data: how travellers between Sydney, Canberra and Melbourne chose a mode of transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Bunch

from skpref.data import Table
from skpref.exceptions import MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array

__all__ = ["load_modechoice"]

MODES = ("air", "train", "bus", "car")

_DESCR = """\
Choice of a mode of intercity travel
====================================

210 travellers on non-business trips between Sydney, Canberra and Melbourne
(1987) each took one of four modes: air, train, bus or car. The sample
over-represents the modes that few people take. Source: Greene and Hensher, as
table F18-2 of Greene, Econometric Analysis, 7th edition; public domain; read
from statsmodels.

Items (840): one alternative of one traveller, with the id "001:air".

Features
    ttme   waiting time at the terminal, minutes (0 for the car)
    invc   cost in the vehicle, dollars
    invt   time in the vehicle, minutes
    gc     generalised cost, dollars: invc + invt x value of the time
    hinc   household income, 1000 dollars (the same for all modes of a traveller)
    psize  number of people travelling together (the same for all modes)
    air, train, bus, car              1 for the mode, else 0
    hinc_air, hinc_train, hinc_bus    income, for one mode only: income can tip a
                                      choice only through the mode
    psize_air, psize_train, psize_bus the same for the number of people

Beware of ttme: for the modes *not* taken it is filled in with constants (69
or 64 minutes for air, 34 or 44 for the train, 35 or 53 for the bus) that no
traveller who took them reports, so a flexible model can read the answer from
it; invt seems partly filled in as well. `skpref demo --dataset travellers`
leaves ttme out.

A row of X is one choice, a task: the ids of the four alternatives of one
traveller, in the order air, train, bus, car. y is the id of the one taken.
"""


def load_modechoice() -> Bunch:
    """Load 210 choices among air, train, bus and car.

    The data comes with the package statsmodels; nothing is downloaded.

    Returns
    -------
    Bunch
        `table`, a `Table` of 840 alternatives with string ids and 16 features;
        `X`, str array of shape (210, 4), the alternatives of each traveller;
        `y`, str array of shape (210,), those that were taken; `feature_names`,
        list of str; `DESCR`, str.

    Raises
    ------
    MissingExtraError
        statsmodels is not installed.

    Examples
    --------
    >>> from skpref.datasets import load_modechoice
    >>> trips = load_modechoice()
    >>> trips.X.shape, trips.table
    ((210, 4), Table(n_items=840, n_features=16))
    >>> trips.X[0].tolist(), str(trips.y[0])
    (['001:air', '001:train', '001:bus', '001:car'], '001:car')
    """
    columns = _read()
    traveller = columns["individual"].astype(np.int64)
    mode = columns["mode"].astype(np.int64) - 1
    names, features = _features(columns, mode)
    ids = np.array([f"{person:03d}:{MODES[code]}" for person, code in zip(traveller, mode, strict=True)])
    return Bunch(
        table=Table(features, ids, feature_names=names),
        X=ids.reshape(-1, len(MODES)).astype(object),
        y=ids[columns["choice"] == 1.0].astype(object),
        feature_names=names,
        DESCR=_DESCR,
    )


def _read() -> dict[str, Array]:
    try:
        from statsmodels.datasets import modechoice
    except ImportError as error:
        raise MissingExtraError(
            'load_modechoice needs statsmodels, which ships the data: pip install "skpref[data]"'
        ) from error
    frame = modechoice.load_pandas().data
    return {name: frame[name].to_numpy(dtype=np.float64) for name in frame.columns}


def _features(columns: dict[str, Array], mode: NDArray[np.int64]) -> tuple[list[str], Array]:
    made = {name: columns[name] for name in ("ttme", "invc", "invt", "gc", "hinc", "psize")}
    is_mode = {name: (mode == code).astype(np.float64) for code, name in enumerate(MODES)}
    made |= is_mode
    for trait in ("hinc", "psize"):
        made |= {f"{trait}_{name}": columns[trait] * is_mode[name] for name in MODES[:-1]}
    return list(made), np.column_stack(list(made.values()))
