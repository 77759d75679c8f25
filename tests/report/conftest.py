"""What the report's tests share: their helper module, `browser`, on the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
