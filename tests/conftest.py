"""Settings that all tests share."""

import signal

from hypothesis import settings

# A shell that starts the tests in the background has them ignore Ctrl-C, and so all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Timings on a busy machine are no failure; the same examples on every run.
settings.register_profile("batchcut", deadline=None, derandomize=True)
settings.load_profile("batchcut")
