import type { Readable } from 'node:stream';
import { LineSplitter } from '../../clients/node/src/verify/export-lines.ts';
import { ExportVerifier } from '../../clients/node/src/verify/export-verifier.ts';
import { type BrokenAnswer, describeBroken } from '../../shared/attestation/broken-chains.ts';
import { isAuditStart } from '../../shared/audit/export.ts';
import { AuditVerifier } from '../../shared/audit/verify-audit.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { JwksError, type Keyset, keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { limits } from '../../shared/model/limits.ts';
import { visible } from '../../shared/model/plain-text.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { openPlainFile, readPlainFile } from '../../shared/runtime/plain-file.ts';
import { counted } from '../base/count-words.ts';
import { cliLimits } from '../base/limits.ts';
import type { TextSink } from '../base/text-sink.ts';
import { exportCrypto } from './export-crypto.ts';
import { sentenceOf } from './export-faults.ts';
import { JoinedChains } from './joined-chains.ts';
import { ProofCheck } from './verify-proofs.ts';

/**
 * 0: everything verifies. 5: the export or the keys in the JWKS do not verify, or the export could not be
 * read to its end. 2: nothing was verified, because a file is missing or not JSON.
 */
export type VerifyExitCode = 0 | 2 | 5;

/** Of an export of attestations or of the audit. */
export type FileVerdict =
  | {
      readonly kind: 'valid';
      readonly chains: number;
      readonly records: number;
      readonly compromised: number;
      readonly archived: number;
      readonly compromised_statements: number;
      readonly removed_approvals: number;
      readonly facts_opened: number;
      readonly facts_withheld: number;
    }
  | {
      readonly kind: 'invalid';
      readonly sentence: string;
      readonly line: number;
      readonly chainId: string | null;
      readonly sequence: number | null;
      readonly broken: readonly BrokenAnswer[];
      readonly brokenUnnamed: number;
    };

const progressEveryRecords = 50_000;

/**
 * `agent-trust attestations verify FILE... --jwks JWKS`: verifies an export of attestations (jsonl or json)
 * or of the audit offline, in constant memory. `-` is standard input. Of several files each goes on where
 * those before it end, as an export goes on after archives: that takes the memory of a hash for each chain.
 * Writes a verdict in one line for each file, up to the first that does not verify, and returns the exit
 * code.
 */
export async function verifyAttestationsCommand(options: {
  readonly files: readonly string[];
  /**
   * Path of a JWKS from `/.well-known/jwks.json`. Fetch it from the service yourself, not together with the
   * export.
   */
  readonly jwks: string;
  /** Proofs of the log, with the policy that says whom to believe (docs/log.md). Default: none. */
  readonly proofs?: { readonly files: readonly string[]; readonly policy: string };
  /** Gets each line that verifies, where no proofs are given; the verdict comes after it. */
  readonly sees?: { see(line: string): void };
  /** Gets the verdict. */
  readonly output: TextSink;
  /** Gets errors, and progress if a person is watching. Default: standard error. */
  readonly errors?: TextSink;
  /** Default: standard input. */
  readonly stdin?: Readable;
  /** Default: the fastest that works here. */
  readonly ed25519?: Ed25519;
}): Promise<VerifyExitCode> {
  const output = visibly(options.output);
  const errors = visibly(options.errors ?? process.stderr);
  const keys = await readKeys(options.jwks, { output, errors });
  if (typeof keys === 'number') return keys;
  const { files, stdin = process.stdin, sees = null } = options;
  const ed25519 = options.ed25519 ?? chooseEd25519();
  const verifiers = keyset(ed25519, keys);
  const proofs =
    options.proofs === undefined
      ? null
      : await ProofCheck.read(options.proofs.files, {
          ...{ policy: options.proofs.policy, readFile: readNamedFile, ed25519 },
          clock: { nowMs: Date.now(), keys },
        });
  if (proofs !== null && 'message' in proofs) {
    (proofs.isFalse ? output : errors).write(`${proofs.isFalse ? 'NOT OK: ' : ''}${proofs.message}.\n`);
    return proofs.isFalse ? 5 : 2;
  }
  const before = files.length > 1 ? new JoinedChains() : null;
  for (const file of files) {
    // Whoever sees the lines reads the file again.
    const source = await openSource(file, { stdin, errors, isReadAgain: sees !== null });
    if (source === null) return 2;
    let verdict: FileVerdict;
    try {
      before?.beginFile();
      verdict = await verifyStream(source, verifiers, { errors, before, sees: proofs ?? sees });
    } catch (cause) {
      errors.write(`${file} could not be read to its end: ${messageOf(cause)}\n`);
      return 5;
    }
    const name = before === null ? '' : `${file}: `;
    if (verdict.kind === 'invalid') {
      output.write(`${name}${describeFault(verdict)}`);
      return 5;
    }
    output.write(`${name}${describeValid(verdict, before === null || file === files[0])}`);
  }
  const proven = proofs?.finish() ?? null;
  if (proven !== null) output.write(proven.text);
  return proven?.isSound === false ? 5 : 0;
}

function describeValid(verdict: Extract<FileVerdict, { kind: 'valid' }>, isFirst: boolean): string {
  const { records, chains, archived, compromised, compromised_statements, removed_approvals } = verdict;
  const { facts_opened, facts_withheld } = verdict;
  const joined = isFirst ? '' : ' Every chain goes on where the files before end.';
  const notes = [
    archived === 0 || !isFirst
      ? ''
      : `${counted(archived, 'chain')} of them continue an archive: name its file before this one to verify both.\n`,
    compromised === 0
      ? ''
      : `WARNING: ${counted(compromised, 'record')} signed by a key that was declared compromised: ` +
        'their signatures do not prove who wrote them.\n',
    compromised_statements === 0
      ? ''
      : `WARNING: ${counted(compromised_statements, 'statement')} about passports and approvals signed by a key ` +
        'that was declared compromised: they may be forged.\n',
    removed_approvals === 0
      ? ''
      : `${counted(removed_approvals, 'approval')} stated to be removed: nothing shows who answered.\n`,
    facts_opened === 0
      ? ''
      : `${counted(facts_opened, 'fact')} ${facts_opened === 1 ? 'opens its commitment' : 'open their commitments'}; ` +
        `${facts_withheld} withheld.\n`,
  ];
  return (
    `OK: ${counted(records, 'record')} in ${counted(chains, 'chain')}. ` +
    `Every hash, link and signature verifies.${joined}\n${notes.join('')}`
  );
}

/** Verifies one export. Throws what reading it throws. */
export async function verifyStream(
  source: Readable,
  keys: Keyset,
  {
    errors,
    before = null,
    sees = null,
  }: {
    readonly errors: TextSink;
    readonly before?: JoinedChains | null;
    /** Gets each line that verifies. */
    readonly sees?: { see(line: string): void } | null;
  },
): Promise<FileVerdict> {
  const splitter = new LineSplitter({ lineBytesMax: cliLimits.exportLineBytesMax });
  let verifier: ExportVerifier | AuditVerifier | null = null;
  let nextProgress = progressEveryRecords;
  for await (const piece of source) {
    for (const line of splitter.push(piece)) {
      // The first line identifies the kind of export.
      verifier ??= line !== null && isAuditStart(line) ? new AuditVerifier(keys) : attestations(keys, before);
      if ((await verifier.take(line)) !== null) return verdictOf(verifier);
      if (line !== null) sees?.see(line);
    }
    const records = verifier?.records ?? 0;
    if (errors.isTTY === true && records >= nextProgress) {
      errors.write(`${counted(records, 'record')} so far\n`);
      nextProgress = records + progressEveryRecords;
    }
  }
  verifier ??= attestations(keys, before);
  for (const line of splitter.end()) await verifier.take(line);
  return verdictOf(verifier);
}

function verdictOf(verifier: ExportVerifier | AuditVerifier): FileVerdict {
  const verdict = verifier.finish();
  return verdict.kind === 'invalid' && 'message' in verdict
    ? { ...verdict, sentence: sentenceOf(verdict) }
    : verdict;
}

const attestations = (keys: Keyset, before: JoinedChains | null): ExportVerifier =>
  new ExportVerifier(exportCrypto(keys), before);

/** The keys; 2 without a readable JWKS, 5 if its keys violate docs/verify.md. */
export async function readKeys(
  path: string,
  { output, errors }: { readonly output: TextSink; readonly errors: TextSink },
): Promise<VerificationKey[] | 2 | 5> {
  try {
    return parseJwks(JSON.parse((await readNamedFile(path, limits.jwksBytesMax)).toString()));
  } catch (cause) {
    const problem = `${path} cannot be used as a JWKS: ${messageOf(cause)}`;
    if (cause instanceof JwksError) {
      output.write(`NOT OK: ${problem}.\n`);
      return 5;
    }
    errors.write(`${problem}\n`);
    return 2;
  }
}

/** What files of strangers say cannot disguise itself on a terminal. */
export const visibly = (sink: TextSink): TextSink => ({
  write: (text) => sink.write(visible(text)),
  isTTY: sink.isTTY === true,
});

/** Of a small file that its user has named. Throws an Error that says why not. */
export const readNamedFile = (path: string, bytesMax: number): Promise<Buffer> =>
  readPlainFile(path, bytesMax, ['link', 'pipe']);

/** Opens the file before reading, to tell a missing file from one that breaks off. */
async function openSource(
  path: string,
  of: { readonly stdin: Readable; readonly errors: TextSink; readonly isReadAgain: boolean },
): Promise<Readable | null> {
  const { stdin, errors, isReadAgain } = of;
  if (path === '-') return stdin;
  try {
    const handle = await openPlainFile(path, isReadAgain ? ['link'] : ['link', 'pipe']);
    return handle.createReadStream({ highWaterMark: 256 * 1024 });
  } catch (cause) {
    errors.write(`${path} cannot be opened: ${messageOf(cause)}\n`);
    return null;
  }
}

function describeFault(verdict: Extract<FileVerdict, { kind: 'invalid' }>): string {
  const { broken, brokenUnnamed } = verdict;
  const where = verdict.chainId === null ? '' : `, chain ${verdict.chainId}, sequence ${verdict.sequence}`;
  const others = broken
    .slice(1)
    .map((each) => `Also chain ${each.chain_id}, sequence ${each.sequence}: ${describeBroken(each)}.\n`);
  const more =
    brokenUnnamed === 0 ? '' : `Also ${counted(brokenUnnamed, 'chain')} that the export does not name.\n`;
  const rest = broken.length === 0 ? '' : 'Every record that is in the export verifies.\n';
  return `NOT OK: line ${verdict.line}${where}: ${verdict.sentence}.\n${others.join('')}${more}${rest}`;
}
