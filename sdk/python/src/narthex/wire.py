"""All types of the wire: every event, every body, by name."""

from ._generated import *  # noqa: F403
