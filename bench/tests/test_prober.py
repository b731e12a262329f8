import contextlib
import socket
import threading
import unittest

from harness import prober


class Percentiles(unittest.TestCase):
    def test_the_smallest_value_that_enough_do_not_exceed(self):
        ordered = list(range(1, 1_001))
        found = [prober.percentile(ordered, percent) for percent in (50, 99, 99.9, 100)]
        self.assertEqual(found, [500, 990, 999, 1_000])
        self.assertEqual(prober.percentile([7], 99.9), 7)

    def test_figures_are_in_ms(self):
        found = prober.figures([0.002, 0.001, 0.004])
        self.assertEqual((found["requests"], found["p50_ms"], found["max_ms"]), (3, 2.0, 4.0))


class Pace(unittest.TestCase):
    """A far end that answers nothing before it has seen `held_back` GETs, then each of them."""

    def probe(self, held_back, reply, total=20):
        near, far = socket.socketpair()
        stdin, closing = socket.socketpair()
        get = prober.random_get(10)
        size = len(get())

        def serve():
            seen, text = 0, b""
            with contextlib.suppress(OSError):
                while block := far.recv(1 << 16):
                    text += block
                    ready = len(text) // size
                    if seen + ready < held_back:
                        continue
                    text = text[ready * size :]
                    far.sendall(reply * ready)
                    seen += ready
                    if seen >= total:
                        closing.close()

        server = threading.Thread(target=serve)
        server.start()
        try:
            return prober.latencies(near, stdin, get, prober.answer(3), 0.001)
        finally:
            near.close()
            server.join()
            for each in (far, stdin, closing):
                each.close()

    def test_gets_go_out_while_answers_are_owed(self):
        # A closed loop would wait for ever for the first of the ten answers.
        found = self.probe(10, b"$3\r\nabc\r\n")
        self.assertGreaterEqual(len(found), 20)
        # The first waited for nine more to fall due, the tenth for none of them.
        self.assertGreater(found[0], found[9])

    def test_a_miss_is_no_result(self):
        with self.assertRaisesRegex(ConnectionError, r"\$-1"):
            self.probe(1, b"$-1\r\n", total=1)
