"""Certificates for tests, made by openssl: an authority, a server, clients, and a stranger."""

import pathlib
import subprocess

PASSWORD = "secret"


class Certificates:
    """Files in a directory: ca.crt, server.crt, client.crt ... each with its .key."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self._authority("ca")
        self._authority("stranger-ca")
        self.sign("server")
        self.sign("client")
        self.sign("stranger", authority="stranger-ca")
        self.sign("rsa", key="rsa:2048")
        # What Java reads.
        self._openssl("pkcs12", "-export", "-in", "client.crt", "-inkey", "client.key", "-out",
                      "client.p12", "-passout", f"pass:{PASSWORD}")

    def _openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.directory, check=True, capture_output=True)

    def _authority(self, name):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                      "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "30",
                      "-subj", f"/CN={name}")

    def sign(self, name, authority="ca", key="ec"):
        """A certificate for both ends, for this name and this machine."""
        curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"] if key == "ec" else []
        self._openssl("req", "-newkey", key, *curve, "-nodes", "-keyout", f"{name}.key", "-out",
                      f"{name}.csr", "-subj", f"/CN={name}")
        extensions = self.directory / "extensions"
        extensions.write_text("basicConstraints=CA:FALSE\n"
                              f"subjectAltName=DNS:localhost,IP:127.0.0.1,URI:urn:user:{name}\n")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey",
                      f"{authority}.key", "-CAcreateserial", "-days", "30", "-extfile",
                      extensions.name, "-out", f"{name}.crt")

    def path(self, name):
        return str(self.directory / name)

    def settings(self, server="server"):
        """For a server."""
        return ["--tls-cert-file", self.path(f"{server}.crt"),
                "--tls-key-file", self.path(f"{server}.key"),
                "--tls-ca-cert-file", self.path("ca.crt")]

    def of_cli(self, certificate="client"):
        """For redis-cli and redis-benchmark."""
        own = [] if certificate is None else ["--cert", self.path(f"{certificate}.crt"),
                                              "--key", self.path(f"{certificate}.key")]
        return ["--cacert", self.path("ca.crt"), *own]
