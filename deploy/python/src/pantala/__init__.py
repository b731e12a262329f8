"""The server Pantala: where its binary is, and a way to run it beside a program or a test."""

import os
import sys

from ._server import Server, binary

__all__ = ["Server", "binary", "main"]


def main():
    """The script `pantala-server`: becomes the server."""
    path = str(binary())
    os.execv(path, [path, *sys.argv[1:]])
