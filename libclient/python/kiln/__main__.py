# SPDX-License-Identifier: MIT
"""python3 -m kiln: reports whether libkiln is found, and whether kilnd or its fallback serves this
user.

The exit status is 0 if the host's kilnd serves, 3 if it does not (like kilnctl's), and 1 for any
other failure.
"""
import os
import sys

from . import (Client, KilnError, LibraryError, Level, UnavailableError, __version__, load_library,
               version)

EXIT_FAILED = 1
EXIT_NO_DAEMON = 3


def say_what_serves() -> int:
    os.environ.setdefault("KILN_FALLBACK_NOTICE", "off")  # this program prints the reason itself
    with Client() as client:
        took = client.ping(timeout=10)
        status = client.status()
    answers = f"pid {status.daemon_pid}, answers after {took * 1e6:.0f} us"
    if status.level == Level.DAEMON:
        print(f"{status.daemon} at '{status.socket_path}', {answers}")
        return 0
    print(f"kiln: {status.reason}", file=sys.stderr)
    print(f"no kilnd of the host: a private one, {answers}")
    return EXIT_NO_DAEMON


def main() -> int:
    print(f"kiln {__version__} for Python {sys.version.split()[0]}")
    try:
        print(f"libkiln {version()} from '{load_library()}'")
        return say_what_serves()
    except KilnError as error:
        print(f"kiln: {error}", file=sys.stderr)
        is_absent = isinstance(error, UnavailableError) and not isinstance(error, LibraryError)
        return EXIT_NO_DAEMON if is_absent else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
