"""Memcached's three protocols as a test needs them: bytes of a request out, replies in as lines.

A group of text or meta commands is followed by one whose answer nothing else gives, a group of
binary requests by a NOOP of its own opaque; so it is known when all has been answered.
"""

import socket
import struct

# A limit only for what will never come: a machine may be busy with other things.
LONGEST_S = 60
HEADER = struct.Struct(">BBHBBHI4sQ")
END_TEXT = b"mg end-of-group Oend-of-group\r\n"
END_TEXT_REPLY = b"EN Oend-of-group\r\n"
END_OPAQUE = b"\xff\xff\xff\xfe"
OPCODES = {
    "get": 0x00, "set": 0x01, "add": 0x02, "replace": 0x03, "delete": 0x04, "incr": 0x05,
    "decr": 0x06, "quit": 0x07, "flush": 0x08, "getq": 0x09, "noop": 0x0A, "version": 0x0B,
    "getk": 0x0C, "getkq": 0x0D, "append": 0x0E, "prepend": 0x0F, "stat": 0x10, "setq": 0x11,
    "addq": 0x12, "replaceq": 0x13, "deleteq": 0x14, "incrq": 0x15, "decrq": 0x16, "quitq": 0x17,
    "flushq": 0x18, "appendq": 0x19, "prependq": 0x1A, "touch": 0x1C, "gat": 0x1D, "gatq": 0x1E,
    "sasl_list": 0x20, "sasl_auth": 0x21, "sasl_step": 0x22, "gatk": 0x23, "gatkq": 0x24,
}  # fmt: skip
NAMES = {code: name for name, code in OPCODES.items()}
COUNTING = {"incr", "decr", "incrq", "decrq"}


class Connection:
    """One connection, of one protocol."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=LONGEST_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_closed = False

    def close(self):
        self.socket.close()

    def text(self, request):
        """What is answered to lines of text, as bytes; `is_closed` tells whether it hung up."""
        received = self._exchange(request + END_TEXT, lambda got: got.endswith(END_TEXT_REPLY))
        return received.removesuffix(END_TEXT_REPLY)

    def binary(self, request):
        """What is answered to binary requests: a list of (header fields, extras, key, value)."""
        end = packet("noop", opaque=END_OPAQUE)
        received = self._exchange(request + end, lambda got: got[-24:-20] == b"\x81\x0a\0\0"
                                  and got[-12:-8] == END_OPAQUE)  # fmt: skip
        replies = []
        while len(received) >= HEADER.size:
            fields = HEADER.unpack(received[: HEADER.size])
            _, _, key_bytes, extras_bytes, _, _, body_bytes, opaque, _ = fields
            body = received[HEADER.size : HEADER.size + body_bytes]
            received = received[HEADER.size + body_bytes :]
            if opaque != END_OPAQUE:
                key_end = extras_bytes + key_bytes
                replies.append((fields, body[:extras_bytes], body[extras_bytes:key_end],
                                body[key_end:]))  # fmt: skip
        assert not received, f"half a reply: {received!r}"
        return replies

    def _exchange(self, request, is_whole):
        received = b""
        if self.is_closed:
            return received
        try:
            self.socket.sendall(request)
            while not is_whole(received):
                part = self.socket.recv(1 << 16)
                if not part:
                    self.is_closed = True
                    break
                received += part
        except (ConnectionResetError, BrokenPipeError):
            self.is_closed = True
        return received


def packet(name, extras=b"", key=b"", value=b"", cas=0, opaque=b"\0\0\0\0", **override):
    """A binary request; what is overridden lies about its lengths."""
    opcode = OPCODES[name] if name in OPCODES else int(name, 0)
    body_bytes = override.get("body_bytes", len(extras) + len(key) + len(value))
    header = HEADER.pack(
        override.get("magic", 0x80),
        opcode,
        override.get("key_bytes", len(key)),
        override.get("extras_bytes", len(extras)),
        0,
        0,
        body_bytes,
        opaque,
        cas,
    )
    return header + extras + key + value


def extras_of(name, flags=0, exptime=None, delta=1, initial=0):
    """The extras that a command takes."""
    name = name.removesuffix("q")
    if name in ("set", "add", "replace"):
        return struct.pack(">II", flags, exptime or 0)
    if name in ("incr", "decr"):
        return struct.pack(">QQI", delta, initial, exptime or 0)
    if name in ("touch", "gat", "gatk") or (name == "flush" and exptime is not None):
        return struct.pack(">I", exptime or 0)
    return b""


def reply_in_words(reply, cas_name):
    """One line of a binary reply; `cas_name` tells what a number of cas is called."""
    (_, opcode, _, _, _, status, _, opaque, cas), extras, key, value = reply
    name = NAMES.get(opcode, f"0x{opcode:02x}")
    words = [name, f"status={status:#x}"]
    if len(extras) == 4:
        words.append(f"flags={struct.unpack('>I', extras)[0]}")
    elif extras:
        words.append(f"extras={extras.hex()}")
    if key:
        words.append(f"key={in_words(key)}")
    if name in COUNTING and status == 0 and len(value) == 8:
        words.append(f"number={struct.unpack('>Q', value)[0]}")
    elif value:
        words.append(f"value={in_words(value)}")
    if cas:
        words.append(f"cas={cas_name(cas)}")
    if opaque != b"\0\0\0\0":
        words.append(f"opaque={opaque.hex()}")
    return " ".join(words)


def in_words(data):
    """Bytes as a line of text."""
    text = data.decode("latin-1")
    if len(set(text)) == 1 and len(text) > 30:
        text = f"{{{text[0]}*{len(text)}}}"
    return text.encode("unicode_escape").decode("ascii")
