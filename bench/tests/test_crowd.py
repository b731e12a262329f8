import unittest

from harness import crowd


class Words(unittest.TestCase):
    def test_a_message_is_an_array_of_strings(self):
        self.assertEqual(
            crowd.encode(b"message", b"a", b""), b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$0\r\n\r\n"
        )

    def test_each_way_to_publish_has_its_messages(self):
        self.assertEqual(crowd.SUBSCRIBE.keys(), crowd.KIND.keys())


if __name__ == "__main__":
    unittest.main()
