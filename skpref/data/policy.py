"""Choices of reading data that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Memory and time
    batch_rows: int = 1_000_000  # rows of a table of files, of which reading takes 400 MB
    most_stored: int = 5_000_000  # rows that are brought into memory
    most_pairs: int = 20_000_000  # pairs of all choices: a gigabyte
    rows_at_once: int = 2**20  # rows that are hashed together, and ids that are Python objects at a time
    # Entries of a table in which integers are looked up, or four for every id if these are more.
    small_span: int = 1 << 20
    most_unknown: int = 10_000  # ids that are looked up in other kinds
    short_column: int = 1000  # rows of a column of a frame below which a list is as fast as pyarrow
    long_column: int = 20_000  # strings from which pyarrow, which hashes several times as fast, is worth its import

    # Guesses of what a column holds
    many_rows: int = 10  # rows from which a pattern, such as one sign of all grades, is hardly chance
    most_grades: int = 15  # sizes of grades, each of which has a threshold
    grade_digits: int = 6  # digits of decimals, which have errors; those of 32 bits have 7
    most_steps: int = 100  # distinct numbers with fractions that are taken for levels
    # Names that scikit-learn's checks of classifiers fit without an order ("one", "two", "three").
    most_guessed: int = 3
    most_levels: int = 1000  # levels of ratings
    many_ids: int = 1000  # distinct numbers up to which a column is taken for ids without a warning
    mirrored: float = 0.95  # share of rows with a twin from which games are listed twice
    most_incomplete: float = 0.25  # share of the items; the median distances of more would be those to far rows
    # Standard deviations between items whose utilities are independent; length-scales are a few of them.
    far_items: float = 1000.0
    kept_bits: int = 16  # bits of a number that rounding errors leave as they are

    # Texts and curves
    shown_columns: int = 20  # names of columns in a message
    shown: int = 8  # levels that a message shows
    most_shown: int = 50  # alternatives of a choice: their pairs are 1,225, and a ranking of them has 20,825
    times: int = 100  # times of a curve
    most_bits: int = 10_000  # bits of an integer; Python writes 4,300 digits at most


POLICY = Policy()
