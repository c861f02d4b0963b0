"""A server that answers exactly the bytes, at exactly the moment, that a test says."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable


class ScriptedServer:
    """`answer` gets the connection and the number (from 1) of each whole request, in a thread of its own."""

    def __init__(self, answer: Callable[[socket.socket, int], None]) -> None:
        self.arrived: list[tuple[str, bytes]] = []
        self.connections = 0
        self._answer = answer
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # `close` alone would leave the thread in `accept`, which goes on accepting.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            each.close()

    def questions(self) -> int:
        """The number of whole requests, once there is one. The caller may have given up before."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.arrived, 30):
                raise AssertionError("no request arrived within 30 s")
            return len(self.arrived)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        data = b""
        try:
            while chunk := connection.recv(65536):
                data += chunk
                head, found, body = data.partition(b"\r\n\r\n")
                length = re.search(rb"^content-length: (\d+)", head, re.I | re.M)
                if not found or len(body) < (int(length[1]) if length else 0):
                    continue
                data = b""
                with self._changed:
                    self.arrived.append((head.decode("latin-1"), body))
                    self._changed.notify_all()
                    number = len(self.arrived)
                self._answer(connection, number)
        except OSError:
            return


def http(status: int, body: object, headers: dict[str, str] | None = None) -> bytes:
    """A whole answer with this body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode() + data


def error_body(code: str, status: int) -> object:
    request_id = "req_01m7w73a5pffzt5jwz6hbpmzxj"
    return {
        "error": {"code": code, "message": f"{code} happened", "status": status, "request_id": request_id}
    }
