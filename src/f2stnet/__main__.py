"""python -m f2stnet: the command line, where its program is not on the path."""

from f2stnet.cli import main

if __name__ == "__main__":
    main()
