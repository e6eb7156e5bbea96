"""``python -m hbconv``: the command line."""

import sys

from hbconv.cli import main

sys.exit(main())
