"""`python -m attnscope` is `attnscope`."""

from attnscope.cli.main import main

if __name__ == "__main__":
    main()
