"""Errors and warnings of skpref, each with the built-in class it also is.

::

    Exception
    └── SkprefError
        ├── DataError            (also ValueError)   the input cannot be used
        │   └── UnknownIdError                       an id that the table lacks
        ├── ModelFormatError     (also ValueError)   a file that `load` refuses
        └── MissingExtraError    (also ImportError)  an optional package is absent

    UserWarning
    ├── DataWarning                                  usable input, probably not meant
    └── TrackingWarning                              the tracker failed, the fit goes on

Catching `ValueError` therefore catches every complaint about input, as with
scikit-learn; catching `SkprefError` catches whatever this package raises on
purpose.
"""

__all__ = [
    "DataError",
    "DataWarning",
    "MissingExtraError",
    "ModelFormatError",
    "SkprefError",
    "TrackingWarning",
    "UnknownIdError",
]


class SkprefError(Exception):
    """Base class of every error that skpref raises on purpose.

    Examples
    --------
    >>> from skpref.exceptions import DataError, SkprefError
    >>> issubclass(DataError, SkprefError)
    True
    """


class DataError(SkprefError, ValueError):
    """The data cannot be used as given; the message says what was wanted.

    Examples
    --------
    >>> from skpref.exceptions import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


class UnknownIdError(DataError):
    """An id (of an item or a user) does not occur in the table.

    Examples
    --------
    >>> from skpref.exceptions import DataError, UnknownIdError
    >>> issubclass(UnknownIdError, DataError)
    True
    """


class ModelFormatError(SkprefError, ValueError):
    """A model file is damaged, forged, or of a format that is not read.

    Examples
    --------
    >>> from skpref.exceptions import ModelFormatError
    >>> issubclass(ModelFormatError, ValueError)
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


class DataWarning(UserWarning):
    """The data can be used, but something in it is probably not meant.

    Examples
    --------
    >>> from skpref.exceptions import DataWarning
    >>> issubclass(DataWarning, UserWarning)
    True
    """


class TrackingWarning(UserWarning):
    """The experiment tracker failed; the fit went on without it.

    Examples
    --------
    >>> from skpref.exceptions import TrackingWarning
    >>> issubclass(TrackingWarning, UserWarning)
    True
    """
