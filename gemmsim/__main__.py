"""python -m gemmsim."""

from gemmsim.cli import main

if __name__ == "__main__":
    main()
