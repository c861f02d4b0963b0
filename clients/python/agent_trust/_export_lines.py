"""The lines of an export, of jsonl and of json alike (docs/verify.md, sections 1, 3 and 8)."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from ._attachments import KINDS
from ._records import canonical, canonical_any, demand

# Longer than any record: 32 findings with pointers of 512 characters each are about 20 KiB.
_LINE_BYTES_MAX = 1024 * 1024
_MANIFEST_END, _CHAIN_END, _END = b',"chains":[\n', b',"attestations":[\n', b'],"end":'
_ATTACHMENTS = b'],"attachments":[\n'


class ExportLines:
    """Line by line, in the memory of one. `number` is that of the line that was read last, from 1."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.number = 0
        self._is_json = False
        # What may follow in the json form: chain, record, close (of a chain), attachments, attachment or end.
        self._expected = {"chain", "end"}

    def next(self) -> dict[str, Any]:
        """The object of the next line of the jsonl form. Raises ValueError for what is none."""
        line = self._jsonl()
        try:
            value = json.loads(line)
            is_any = isinstance(value, dict) and value.keys() & {"attestation_id", *KINDS}
            form = canonical_any if is_any else canonical
            is_canonical = isinstance(value, dict) and form(value) + b"\n" == line
        except (ValueError, RecursionError):
            is_canonical = False
        demand(is_canonical, "the line is not a JSON object in its RFC 8785 form")
        return value  # type: ignore[no-any-return]

    def finish(self) -> None:
        self.number += len(rest := self._file.read(1))
        demand(not rest, "something follows the end")

    def _read(self) -> bytes:
        self.number += 1
        line = self._file.readline(_LINE_BYTES_MAX)
        demand(line.endswith(b"\n"), "the file has no end, or a line is too long")
        return line

    def _jsonl(self) -> bytes:
        line = self._read()
        if self.number == 1:
            self._is_json = line.endswith(_MANIFEST_END)
            return line.removesuffix(_MANIFEST_END) + b"}\n" if self._is_json else line
        if not self._is_json:
            return line
        if line in (b"]}\n", b"]},\n"):
            self._step("close", {"attachments", "end"} if line == b"]}\n" else {"chain"})
            return self._jsonl()
        if line == _ATTACHMENTS:
            self._step("attachments", {"attachment"})
            return self._jsonl()
        if line.startswith(_END):
            self._step("end", set())
            return b"{" + line.removeprefix(b"],")
        if line.endswith(_CHAIN_END):
            self._step("chain", {"record", "close"})
            return b'{"chain":' + line.removesuffix(_CHAIN_END) + b"}}\n"
        is_last = not line.endswith(b",\n")
        if "attachment" in self._expected:
            self._step("attachment", {"end"} if is_last else {"attachment"})
        else:
            self._step("record", {"close"} if is_last else {"record"})
        return line.removesuffix(b",\n").removesuffix(b"\n") + b"\n"

    def _step(self, what: str, expected: set[str]) -> None:
        demand(what in self._expected, "the json export is not laid out in its lines")
        self._expected = expected
