"""``python -m outboard`` is the program ``outboard``."""

from outboard._program import main

if __name__ == "__main__":
    main()
