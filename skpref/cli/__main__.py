"""``python -m skpref.cli``: the command without an installation."""

import sys

from skpref.cli import main

if __name__ == "__main__":
    sys.exit(main())
