"""Simulated battles of language models whose judges like long answers."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from sklearn.utils import Bunch

from skpref._math.limits import LARGEST
from skpref._math.random import as_generator
from skpref.datasets._simulated import as_numbers, check_at_least, draw_pairs
from skpref.exceptions import DataError

__all__ = ["make_arena"]

_NAMES = (
    *("Ada", "Bell", "Curie", "Darwin", "Euler", "Fermi", "Gauss", "Hopper", "Ising", "Jaynes", "Kepler", "Lovelace"),
    *("Maxwell", "Noether", "Ohm", "Pascal", "Quetelet", "Ramanujan", "Shannon", "Turing", "Ulam", "Volta", "Wiener"),
    *("Xenakis", "Young", "Zuse"),
)
_SPREAD = 0.9  # utility of the best model, in logits; the worst has its negative
_WORDS, _VERBOSITY, _NOISE = 300.0, 100.0, 60.0  # words of an answer: mean, range by model, standard deviation


def make_arena(
    n_models: int = 10,
    n_battles: int = 10_000,
    *,
    length_effect: float = 0.005,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Bunch:
    """Simulate battles of language models whose judges prefer longer answers.

    The answers of two models are compared. Model a wins with probability
    ``1 / (1 + exp(-z))``, where ``z = utility(a) - utility(b) + length_effect *
    (words_a - words_b)``. Utilities are evenly spaced from 0.9 to -0.9. Each
    model has its own usual length, 200 to 400 words, unrelated to its utility.
    The names are those of scientists, not of models that exist.

    Parameters
    ----------
    n_models : int, default=10
        Number of models, at least 2.
    n_battles : int, default=10000
        Number of battles, at least 1.
    length_effect : float, default=0.005
        Change of z, in logits, for each word by which the answer of a is longer; 0 for judges who ignore length. With
        the default, 180 more words are worth half of the difference between the best and the worst model.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness; an int gives the same data at every call.

    Returns
    -------
    Bunch
        `battles`, a dict of columns of length n_battles, ready for
        ``pandas.DataFrame``: ``model_a``, ``model_b`` and ``winner`` (names;
        object), ``words_a`` and ``words_b`` (int64); `names` and `utilities`
        of shape (n_models,), the truth, best first; `DESCR`, str.

    Raises
    ------
    DataError
        A number is out of range.

    Examples
    --------
    >>> from skpref.datasets import make_arena
    >>> arena = make_arena(4, 100, random_state=0)
    >>> list(arena.battles), arena.names.tolist()
    (['model_a', 'model_b', 'winner', 'words_a', 'words_b'], ['Ada', 'Bell', 'Curie', 'Darwin'])
    """
    check_at_least({"n_models": (n_models, 2), "n_battles": (n_battles, 1)})
    wanted = f"a finite number, of at most {LARGEST:g} in size"
    length_effect = float(as_numbers(length_effect, "length_effect", wanted, {()}))
    if abs(length_effect) > LARGEST:
        raise DataError(f"length_effect must be {wanted}, got {length_effect}")
    rng = as_generator(random_state)
    names = np.array([_name(number) for number in range(n_models)], dtype=object)
    utilities = np.linspace(_SPREAD, -_SPREAD, n_models)
    verbosity = rng.permutation(np.linspace(-1.0, 1.0, n_models))
    a, b = draw_pairs(n_models, n_battles, rng)
    words = np.rint(_WORDS + _VERBOSITY * verbosity[[a, b]] + _NOISE * rng.standard_normal((2, n_battles)))
    words = np.maximum(words, 1.0).astype(np.int64)
    z = utilities[a] - utilities[b] + length_effect * (words[0] - words[1])
    a_won = rng.random(n_battles) < expit(z)
    columns = {"model_a": names[a], "model_b": names[b], "winner": names[np.where(a_won, a, b)]}
    return Bunch(
        battles={**columns, "words_a": words[0], "words_b": words[1]},
        names=names,
        utilities=utilities,
        DESCR="Simulated battles of language models; judges like long answers, whatever the answers say.",
    )


def _name(number: int) -> str:
    round_, letter = divmod(number, len(_NAMES))
    return _NAMES[letter] + (f" {round_ + 1}" if round_ else "")
