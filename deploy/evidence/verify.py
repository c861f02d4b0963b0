"""Verifies the evidence pack in the folder of this file, without a network.

    python3 verify.py

Exit code 0: all of it holds; 5: something does not; 2: a file is missing, or nothing was verified.
"""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # The folder stays as it was unpacked.

from agent_trust.log import verify_log_proof  # noqa: E402
from agent_trust.replay import main as replay  # noqa: E402
from agent_trust.verify import verify_attestations  # noqa: E402

FOLDER = Path(__file__).resolve().parent
SMALL_BYTES_MAX = 4 * 1024 * 1024


def plain(path: Path, bytes_max: float = SMALL_BYTES_MAX) -> Path:
    """A file that ends, and that is no link out of the pack."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path} is no plain file")
    if found.st_size > bytes_max:
        raise ValueError(f"{path} is larger than {bytes_max} bytes")
    return path


def proofs_of(records: Path) -> dict[str, str | None]:
    """By chain: its proof of the log, or none."""
    found = {}
    with records.open("rb") as lines:
        for line in lines:
            if line.startswith(b'{"chain":'):
                chain = json.loads(line)["chain"]
                found[chain["chain_id"]] = chain.get("log_proof")
    return found


def main() -> int:
    records, jwks = plain(FOLDER / "records.jsonl", float("inf")), plain(FOLDER / "jwks.json")
    with records.open("rb") as file:
        keys = json.loads(jwks.read_bytes())
        verdict = verify_attestations(file, keys)
    if not verdict:
        print(f"NOT OK: {records.name}, line {verdict.line}: {verdict.fault}.")
        return 5
    print(f"OK: {verdict.records} records: every hash, link and signature verifies.")
    proofs, proven = proofs_of(records), 0
    for chain_id, proof in proofs.items():
        if proof is None:
            continue
        checked = verify_log_proof(proof, plain(FOLDER / "log.policy").read_text("ascii"), jwks=keys)
        if not checked or checked.chain_id != chain_id:
            print(f"NOT OK: the proof of the log for chain {chain_id}: {checked.fault or 'another chain'}.")
            return 5
        proven, cosigned = proven + 1, checked.witnesses
    if proven:
        by = f", cosigned by {', '.join(cosigned)}" if cosigned else ", without witnesses"
        print(f"OK: the log has {proven} of these {len(proofs)} chains{by}.")
    else:
        print("Note: no proof of the log is in the pack.")
    return replay([str(records), "--jwks", str(jwks)])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, TypeError, RecursionError) as error:
        print(f"{error}. Nothing was verified.", file=sys.stderr)
        sys.exit(2)
