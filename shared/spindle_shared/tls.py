"""TLS contexts for connections to Kafka."""

import os
import ssl


def client_context(authority: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A client context that trusts one CA and presents one certificate, all given as PEM.

    The key passes through an anonymous file in memory, never through a disk.

    Raises:
        OSError, ValueError: one of them is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode())
    descriptor = os.memfd_create("client", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, key + b"\n" + certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
