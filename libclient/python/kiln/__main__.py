# SPDX-License-Identifier: MIT
"""python3 -m kiln: whether libkiln is found and kilnd answers."""
import sys

from . import Client, KilnError, __version__, load_library, version


def main() -> int:
    print(f"kiln {__version__} for Python {sys.version.split()[0]}")
    try:
        print(f"libkiln {version()} from '{load_library()}'")
        with Client() as client:
            took = client.ping(timeout=10)
            status = client.status()
            print(f"kilnd {status.daemon} at '{status.socket_path}', pid {status.daemon_pid}, "
                  f"answers after {took * 1e6:.0f} us")
    except KilnError as error:
        print(f"kiln: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
