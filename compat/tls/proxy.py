#!/usr/bin/env python3
"""Lets a program that speaks no TLS reach a server that does.

    proxy.py HOST:PORT FILES -- PROGRAM ... {address} ...

Runs the program with the address of a port where each connection is passed on through TLS, with the
certificate client.crt; ends as it does.
"""

import asyncio
import pathlib
import ssl
import sys


async def pass_on(reader, writer):
    """From one side to the other, to the end."""
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        pass


async def main():
    (host, port), files = sys.argv[1].rsplit(":", 1), pathlib.Path(sys.argv[2])
    context = ssl.create_default_context(cafile=files / "ca.crt")
    context.load_cert_chain(files / "client.crt", files / "client.key")

    async def serve(reader, writer):
        try:
            there = await asyncio.open_connection(host, port, ssl=context,
                                                  server_hostname="localhost")
        except OSError:
            writer.close()
            return
        up = asyncio.create_task(pass_on(reader, there[1]))
        down = asyncio.create_task(pass_on(there[0], writer))
        await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        if up.done() and not down.done():
            # What was asked before is still answered; TLS has no half that is closed in Python.
            there[1].close()
        writer.close()
        there[1].close()
        up.cancel()
        down.cancel()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = "{}:{}".format(*listening.sockets[0].getsockname())
    words = [word.replace("{address}", address) for word in sys.argv[4:]]
    program = await asyncio.create_subprocess_exec(*words)
    return await program.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
