"""``python -m hbconv.cli``."""

import sys

from hbconv.cli import main

sys.exit(main())
