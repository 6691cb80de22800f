"""`python -m chunkloom` is `chunkloom`."""

from chunkloom.cli import main

main()
