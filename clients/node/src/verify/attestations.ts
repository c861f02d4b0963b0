import { encode } from './canonical.ts';
import { LineSplitter } from './export-lines.ts';
import { type ExportVerdict, ExportVerifier } from './export-verifier.ts';
import { keysOf, webCrypto } from './keys.ts';

export type AttestationsVerdict =
  | {
      readonly valid: true;
      readonly chains: number;
      readonly records: number;
      readonly created_at: string;
      readonly since: string | null;
      /** Records by a compromised key: in their place, but their author is uncertain. */
      readonly compromised: number;
      /** Passports and approvals by such a key: what the file says of them may be forged. */
      readonly compromised_statements: number;
      /** Approvals that are stated to be removed: nothing shows who answered them. */
      readonly removed_approvals: number;
      /** Commitments that values in the file open, of an export with `facts=1`, and those that none does. */
      readonly facts_opened: number;
      readonly facts_withheld: number;
    }
  | {
      readonly valid: false;
      /** The fault, for people. */
      readonly fault: string;
      /** From 1, in the file. */
      readonly line: number;
      /** The current chain; null: none. */
      readonly chain_id: string | null;
      /** The faulty record; null: not a fault of a record. */
      readonly sequence: number | null;
    };

/** A file, or its bytes as they arrive (a response body, a stream of Node.js). */
export type ExportBytes = string | Uint8Array | AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>;

/** Longer than any line of an export. */
const lineBytesMax = 1024 * 1024;

/**
 * Verifies an export of attestations, jsonl or json, by docs/verify.md alone: every byte of every line, every
 * hash, link and signature. One pass, in the memory of one line. `jwks` is the parsed
 * `/.well-known/jwks.json`, taken from the service itself. Throws TypeError for a `jwks` that is none, and
 * what reading the bytes throws. docs/verify.md, 7, has what it does NOT prove.
 */
export async function verifyAttestations(file: ExportBytes, jwks: unknown): Promise<AttestationsVerdict> {
  const verifier = new ExportVerifier(webCrypto(await keysOf(jwks)));
  const splitter = new LineSplitter({ lineBytesMax });
  for await (const piece of piecesOf(file)) {
    for (const line of splitter.push(piece)) {
      if ((await verifier.take(line)) !== null) return shown(verifier.finish(), splitter.fault);
    }
  }
  for (const line of splitter.end()) await verifier.take(line);
  return shown(verifier.finish(), splitter.fault);
}

/** `unread`: why the last line is none; empty: it is one. */
function shown(verdict: ExportVerdict, unread: string): AttestationsVerdict {
  if (verdict.kind === 'invalid') {
    const { message, found } = verdict;
    const { line, chainId: chain_id, sequence } = found;
    return { valid: false, fault: unread || message, line, chain_id, sequence };
  }
  const { kind: _, archived: __, ...counts } = verdict;
  return { valid: true, ...counts };
}

async function* piecesOf(file: ExportBytes): AsyncGenerator<Uint8Array> {
  if (typeof file === 'string') yield encode(file);
  else if (file instanceof Uint8Array) yield file;
  else if ('getReader' in file) {
    // Not by iteration: Safari has no iterator of a ReadableStream.
    const reader = file.getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } else yield* file;
}
