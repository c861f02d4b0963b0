import {
  parseRevokedKeys,
  type ReceiptVerdict,
  type RevokedKeys,
  receiptFaults,
  verifyReceipt,
} from '../../shared/attestation/decision-receipt.ts';
import {
  ReceiptAgainstExport,
  type ReceiptFinding,
} from '../../shared/attestation/receipt-against-export.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { type Keyset, keyset } from '../../shared/crypto/keyset.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { openPlainFile } from '../../shared/runtime/plain-file.ts';
import { parseJsonText } from '../../shared/wire/api/json.ts';
import type { DecisionReceipt } from '../../shared/wire/evidence/decision-receipt.ts';
import { cliLimits } from '../base/limits.ts';
import type { TextSink } from '../base/text-sink.ts';
import { JoinedChains } from './joined-chains.ts';
import { readKeys, readNamedFile, verifyStream, visibly } from './verify-attestations.ts';

interface ReceiptFiles {
  /** As it was answered: the receipt alone, or the whole answer. */
  readonly receipt: string;
  /** Path of a JWKS, fetched from the service by yourself. */
  readonly jwks: string;
  /** Path of `/.well-known/sidecar-keys.json`; absent: none is known to be revoked. */
  readonly revoked?: string;
}

interface Sinks {
  readonly output: TextSink;
  readonly errors: TextSink;
}

const visiblyAll = ({ output, errors }: Sinks): Sinks => ({
  output: visibly(output),
  errors: visibly(errors),
});

/** 0: it holds. 5: it does not. 2: a file is missing or not usable. */
type ReceiptExitCode = 0 | 2 | 5;

/** `agent-trust evidence receipt`: whether a receipt is one of this service, and of this request. */
export async function verifyReceiptCommand(
  files: ReceiptFiles & { readonly request?: string },
  given: Sinks,
): Promise<ReceiptExitCode> {
  const sinks = visiblyAll(given);
  const read = await readReceipt(files, sinks);
  if (typeof read === 'number') return read;
  const { statement } = read.receipt;
  if (files.request !== undefined) {
    const hash = await hashOfRequest(files.request, sinks);
    if (hash === null) return 2;
    if (hash !== statement.request_hash) {
      sinks.output.write(
        `NOT OK: the receipt is of another request: ${statement.request_hash}, and this is ${hash}.\n`,
      );
      return 5;
    }
  }
  sinks.output.write(
    `OK: ${describe(read.receipt)}. The record is in the log by ${statement.log_by}: an export made later has it.\n`,
  );
  return 0;
}

/**
 * `agent-trust evidence convict`: holds a receipt against an export, or against archives and the export that
 * goes on from them, in the order in which they were made. All are verified. 5 where they contradict each
 * other: the files then convict the operator, who has signed them.
 */
export async function convictCommand(
  files: ReceiptFiles & { readonly exports: readonly string[] },
  given: Sinks,
): Promise<ReceiptExitCode | 6> {
  const sinks = visiblyAll(given);
  const read = await readReceipt(files, sinks);
  if (typeof read === 'number') return read;
  const { receipt, keys } = read;
  const against = new ReceiptAgainstExport(receipt.statement);
  const { output } = sinks;
  const before = files.exports.length > 1 ? new JoinedChains() : null;
  let compromised = 0;
  for (const file of files.exports) {
    const verified = await verifyExport(file, { keys, before, against, sinks });
    if (verified === null) return 2;
    compromised += verified.compromised;
  }
  const finding = against.finish();
  output.write(`${describe(receipt)}.\n${describeFinding(finding, receipt)}\n`);
  const isConvicting = finding.kind !== 'kept' && finding.kind !== 'undecided';
  if (isConvicting && compromised > 0)
    output.write(
      `WARNING: ${compromised} records of the export are signed by a key that was declared compromised.\n`,
    );
  if (finding.kind === 'kept') return 0;
  return isConvicting ? 5 : 6;
}

/** Null: it cannot be used, and the sinks have been told why. */
async function verifyExport(
  file: string,
  {
    keys,
    before,
    against,
    sinks: { output, errors },
  }: {
    readonly keys: Keyset;
    readonly before: JoinedChains | null;
    readonly against: ReceiptAgainstExport;
    readonly sinks: Sinks;
  },
): Promise<{ readonly compromised: number } | null> {
  try {
    const handle = await openPlainFile(file, ['link', 'pipe']);
    const source = handle.createReadStream({ highWaterMark: 256 * 1024 });
    before?.beginFile();
    const verdict = await verifyStream(source, keys, { errors, before, sees: against });
    if (verdict.kind === 'valid') return verdict;
    output.write(
      `NOT OK: ${file} does not verify, so it is held against nothing: line ${verdict.line}: ${verdict.sentence}.\n`,
    );
  } catch (cause) {
    errors.write(`${file} cannot be read: ${messageOf(cause)}\n`);
  }
  return null;
}

const describe = ({ statement, certificate }: DecisionReceipt): string =>
  `sidecar ${certificate.sidecar_id} has signed ${statement.decision}${statement.reason === null ? '' : ` ${statement.reason}`} at ${statement.issued_at}, on record as ${statement.attestation_id}`;

function describeFinding(finding: ReceiptFinding, { statement }: DecisionReceipt): string {
  const { chain_id: chainId, log_by: logBy } = statement;
  const both = 'The operator has signed both: keep receipt, export and JWKS, which prove it to anybody.';
  switch (finding.kind) {
    case 'kept':
      return `OK: the export has it, as record ${finding.sequence} of chain ${chainId}.`;
    case 'differs':
      return `CONVICTED: record ${finding.sequence} of the export has this id and another ${finding.member}. ${both}`;
    case 'voided':
      return `CONVICTED: record ${finding.sequence} of the export takes it back as never answered. ${both}`;
    case 'left_out':
      return (
        `CONVICTED: the record was promised by ${logBy}, and chain ${chainId} lacks it: its records 1 to ` +
        `${finding.lastSequence} go on after that time without it. ${both}`
      );
    default:
      return `UNDECIDED: ${undecided(finding.why, statement)}.`;
  }
}

function undecided(
  why: Extract<ReceiptFinding, { kind: 'undecided' }>['why'],
  { chain_id: chainId, log_by: logBy }: DecisionReceipt['statement'],
): string {
  if (why === 'no_chain') return `the export has no chain ${chainId}: ask for one that has it`;
  if (why === 'begins_later')
    return `chain ${chainId} does not begin with its first record here: export without --since, or name the archives with its first records before the export`;
  return `chain ${chainId} has no record that was made later than a minute after ${logBy}: export again once it has`;
}

async function readReceipt(
  { receipt: path, jwks, revoked: revokedPath }: ReceiptFiles,
  sinks: Sinks,
): Promise<{ readonly receipt: DecisionReceipt; readonly keys: Keyset } | 2 | 5> {
  const found = await readKeys(jwks, sinks);
  if (typeof found === 'number') return found;
  const ed25519 = chooseEd25519();
  const keys = keyset(ed25519, found);
  const value = await readJson(path, sinks);
  const revoked = await readRevoked(revokedPath, sinks);
  if (value === unreadable || revoked === null) return 2;
  const shown = isJsonObject(value) && isJsonObject(value['receipt']) ? value['receipt'] : value;
  const verdict: ReceiptVerdict = verifyReceipt(shown, { ed25519, keys, revoked });
  if (verdict.kind === 'valid') return { receipt: verdict.receipt, keys };
  sinks.output.write(`NOT OK: ${path}: ${receiptFaults[verdict.fault]}.\n`);
  return 5;
}

/** Null: there is no such list. */
async function readRevoked(path: string | undefined, sinks: Sinks): Promise<RevokedKeys | null> {
  if (path === undefined) return new Set();
  const value = await readJson(path, sinks);
  const revoked = value === unreadable ? null : parseRevokedKeys(value);
  if (value !== unreadable && revoked === null)
    sinks.errors.write(`${path} is no list of revoked keys: fetch /.well-known/sidecar-keys.json.\n`);
  return revoked;
}

async function hashOfRequest(path: string, sinks: Sinks): Promise<string | null> {
  const value = await readJson(path, sinks);
  if (value === unreadable) return null;
  if (!isJsonObject(value)) {
    sinks.errors.write(`${path} is no request: it holds no JSON object.\n`);
    return null;
  }
  const { proof: _proof, approval_id: _approvalId, ...rest } = value;
  return contentHash(rest);
}

const unreadable = Symbol('unreadable');

async function readJson(path: string, { errors }: Sinks): Promise<unknown> {
  try {
    return parseJsonText((await readNamedFile(path, cliLimits.receiptBytesMax)).toString());
  } catch (cause) {
    errors.write(`${path} cannot be read as JSON: ${messageOf(cause)}\n`);
    return unreadable;
  }
}
