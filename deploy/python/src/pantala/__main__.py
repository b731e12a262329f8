"""`python -m pantala`: the server."""

from . import main

main()
