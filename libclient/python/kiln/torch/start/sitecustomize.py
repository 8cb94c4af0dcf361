# SPDX-License-Identifier: MIT
"""Python imports this module when it starts, if `kilnctl run --torch` has put this directory first
in PYTHONPATH. Any version of Python can read this file. The program sees no difference, because
this file removes its directory from sys.path, and then imports the sitecustomize that Python would
have imported without it."""
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))

if sys.version_info >= (3, 9):
    try:
        import kiln_torch_start
        kiln_torch_start.watch()
    except Exception as error:
        sys.stderr.write("kiln.torch is not installed: %r\n" % (error,))

sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _here]
_this = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # the next one in sys.path
except ImportError as error:
    if "No module named" not in str(error) or "sitecustomize" not in str(error):
        raise
finally:
    sys.modules.setdefault("sitecustomize", _this)
