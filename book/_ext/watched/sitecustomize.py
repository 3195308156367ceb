"""What every Python imports first that a notebook starts, its kernel as well: see ../reads.py."""

import os
import sys

if "LN_READS" in os.environ:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import reads

    reads.watch()
    sys.path.pop()
