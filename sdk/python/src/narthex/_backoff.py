"""How long to wait before the next attempt, and when to give up. No I/O."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

FIRST_SECONDS = 0.5
"""The longest wait before the first repetition."""

WAIT_SECONDS_MAX = 8.0
"""The longest wait between two attempts, unless the server asks for more."""

RETRY_AFTER_SECONDS_MAX = 60.0
"""The longest wait that a server may ask for: beyond it, waiting is the caller's decision."""


class Backoff:
    """Waits that double from 0.5 s to 8 s with full jitter, and start again on progress.

    It gives up after so many repetitions, or so many seconds after the first failure, or never.
    """

    def __init__(
        self,
        repetitions_max: int | None = None,
        seconds_max: float | None = None,
        *,
        spread: Callable[[], float] = random.random,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._repetitions_max = repetitions_max
        self._seconds_max = seconds_max
        self._spread = spread
        self._now = now
        self._failed = 0
        self._since = 0.0
        self.first_seconds = FIRST_SECONDS

    def progress(self) -> None:
        """Something came: the next trouble is a new one."""
        self._failed = 0

    def next_wait(self, retry_after: float | None = None) -> float | None:
        """Returns the seconds to wait after one more failure; None when it is time to give up."""
        if self._failed == 0:
            self._since = self._now()
        if self._repetitions_max is not None and self._failed >= self._repetitions_max:
            return None
        # The exponent is capped so that no power overflows.
        longest = min(WAIT_SECONDS_MAX, self.first_seconds * 2.0 ** min(self._failed, 16))
        self._failed += 1
        wait = longest * self._spread() if retry_after is None else retry_after
        if wait > RETRY_AFTER_SECONDS_MAX or wait > self._left():
            return None
        return wait

    def _left(self) -> float:
        if self._seconds_max is None:
            return float("inf")
        return self._since + self._seconds_max - self._now()
