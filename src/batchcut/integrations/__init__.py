"""Plans in training frameworks; each module imports its framework when it is used."""
