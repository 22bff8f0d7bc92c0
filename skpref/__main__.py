"""``python -m skpref``: the command without an installation of its script."""

import sys

from skpref.cli import main

if __name__ == "__main__":
    sys.exit(main())
