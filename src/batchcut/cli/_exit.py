"""What the exit codes mean, the same for every verb."""

DONE, CHECK_FAILED, WRONG_USE, INTERRUPTED, OUTPUT_CLOSED = 0, 1, 2, 130, 141
FAILED = CHECK_FAILED
