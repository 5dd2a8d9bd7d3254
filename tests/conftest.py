"""Settings that all tests share."""

from hypothesis import settings

# Timings on a busy machine are no failure; the same examples on every run.
settings.register_profile("batchcut", deadline=None, derandomize=True)
settings.load_profile("batchcut")
