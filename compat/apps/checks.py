"""What the applications in Python share: named checks that are counted; waiting for conditions.

Words behind HOST:PORT choose the checks whose title has one of them.
"""

import pathlib
import sys
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).parents[1]))

from server import end, until  # noqa: E402,F401  (the applications use them)

PATIENCE_S = 60


class Checks:
    """Checks of one application. `@checks("title")` names one; `run` runs them in their order."""

    def __init__(self, application):
        self.application = application
        self.checks = []

    def __call__(self, title):
        def add(function):
            self.checks.append((title, function))
            return function

        return add

    def run(self, *arguments):
        """Runs all; ends the process with 1 when one failed. A check may return what it did."""
        passed = failed = 0
        wanted = sys.argv[2:]
        for title, function in self.checks:
            if wanted and not any(word in title for word in wanted):
                continue
            began = time.monotonic()
            try:
                told = function(*arguments)
            except Exception:  # whatever goes wrong is this check's failure
                failed += 1
                print(f"FAILED {self.application}: {title}")
                traceback.print_exc(file=sys.stdout)
            else:
                passed += 1
                took_s = time.monotonic() - began
                did = f"{title} ({told})" if told else title
                print(f"ok     {self.application}: {did}, {took_s:.1f} s")
            sys.stdout.flush()
        print(f"{passed} passed, {failed} failed")
        sys.exit(1 if failed else 0)


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def raises(error, function, *arguments, **named):
    try:
        found = function(*arguments, **named)
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} did not come, but {found!r}")


def address():
    """Host and port from the command line."""
    host, port = sys.argv[1].rsplit(":", 1)
    return host, int(port)
