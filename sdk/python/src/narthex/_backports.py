"""Words of `typing` that Python 3.10 has not."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from typing import Self, Unpack
else:
    from typing_extensions import Self, Unpack

__all__ = ["Self", "Unpack"]
