"""Errors and warnings of skpref, with the built-in classes that they derive from.

::

    Exception
    └── SkprefError
        ├── DataError            (also ValueError)   the input cannot be used
        │   └── UnknownIdError                       an id that the table lacks
        ├── ModelFormatError     (also ValueError)   a file that `load` refuses
        ├── CheckpointError      (also ValueError)   a checkpoint that a fit cannot resume from
        └── MissingExtraError    (also ImportError)  an optional package is absent

    UserWarning
    ├── CheckpointWarning                            a checkpoint was not written, the fit continued
    ├── DataWarning                                  usable input, probably a mistake
    └── TrackingWarning                              the tracker failed, the fit continues

`except ValueError` catches all errors about input, as with scikit-learn;
`except SkprefError` catches all errors that this package raises on purpose.
"""

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "DataError",
    "DataWarning",
    "MissingExtraError",
    "ModelFormatError",
    "SkprefError",
    "TrackingWarning",
    "UnknownIdError",
]


class SkprefError(Exception):
    """Base class of all errors that skpref raises on purpose.

    Examples
    --------
    >>> from skpref.exceptions import DataError, SkprefError
    >>> issubclass(DataError, SkprefError)
    True
    """


class DataError(SkprefError, ValueError):
    """The data cannot be used; the message says what is required.

    Examples
    --------
    >>> from skpref.exceptions import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


class UnknownIdError(DataError):
    """The id of an item or a user is not in the table.

    Examples
    --------
    >>> from skpref.exceptions import DataError, UnknownIdError
    >>> issubclass(UnknownIdError, DataError)
    True
    """


class ModelFormatError(SkprefError, ValueError):
    """A model file is damaged, manipulated, or has an unsupported format.

    Examples
    --------
    >>> from skpref.exceptions import ModelFormatError
    >>> issubclass(ModelFormatError, ValueError)
    True
    """


class CheckpointError(SkprefError, ValueError):
    """A checkpoint is damaged, manipulated, or of a fit with other data or parameters.

    Examples
    --------
    >>> from skpref.exceptions import CheckpointError
    >>> issubclass(CheckpointError, ValueError)
    True
    """


class MissingExtraError(SkprefError, ImportError):
    """A feature needs an optional package that is not installed.

    Examples
    --------
    >>> from skpref.exceptions import MissingExtraError
    >>> issubclass(MissingExtraError, ImportError)
    True
    """


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the fit continued, and the last complete checkpoint was kept.

    Examples
    --------
    >>> from skpref.exceptions import CheckpointWarning
    >>> issubclass(CheckpointWarning, UserWarning)
    True
    """


class DataWarning(UserWarning):
    """The data can be used, but probably contains a mistake.

    Examples
    --------
    >>> from skpref.exceptions import DataWarning
    >>> issubclass(DataWarning, UserWarning)
    True
    """


class TrackingWarning(UserWarning):
    """The experiment tracker failed; the fit continued without it.

    Examples
    --------
    >>> from skpref.exceptions import TrackingWarning
    >>> issubclass(TrackingWarning, UserWarning)
    True
    """
