"""The one error of the kit: a sentence for the person at the terminal, out of any command here."""

from __future__ import annotations

import sys
from collections.abc import Callable


class KitError(Exception):
    """Bad input or a missing piece. The message names the thing, its value and what would be right."""


def exit_with(main: Callable[[], None]) -> None:
    """Run a command. A KitError becomes one sentence on stderr and exit 2; Ctrl-C is 130; the rest is a traceback."""
    try:
        main()
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
