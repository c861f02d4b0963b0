import { join } from 'node:path';
import { chainOf, type End, endOf } from '../../clients/node/src/verify/export-shapes.ts';
import {
  type AttestationsVerdict,
  logProofFaults,
  verifyAttestations,
  verifyLogProof,
} from '../../clients/node/src/verify.ts';
import { parseAttachment } from '../../shared/attestation/attachments.ts';
import { nodeEd25519 } from '../../shared/crypto/ed25519-node.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { parseLogProof } from '../../shared/log/proof.ts';
import { parseWitnessPolicy } from '../../shared/log/witness-policy.ts';
import { Replay, type ReplayReport } from '../../shared/replay/replay.ts';
import { openPlainFile, readPlainFile } from '../../shared/runtime/plain-file.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { parseAttestation } from '../../shared/wire/evidence/attestation.ts';
import type { SignedApproval, SignedPassport } from '../../shared/wire/evidence/evidence.ts';
import { readExportLines, recordOf } from '../verify/export-lines.ts';
import { rewriteOf } from '../verify/verify-proofs.ts';
import { isInScope, type PackScope, packFiles, parseScope } from './pack-scope.ts';
import { PackTotals, pageLimits } from './pack-totals.ts';

/** What the log says of the chains of a pack. */
export interface LogCheck {
  readonly origin: string;
  readonly size: number;
  /** Of the policy in the pack; null: it asks for none. */
  readonly witnesses: readonly string[] | null;
  /** The first proof that does not hold, in words; null: all do. */
  readonly fault: string | null;
}

/** What was found in the files of a pack: the page says nothing else. */
export interface PackCheck {
  readonly scope: PackScope;
  readonly verdict: AttestationsVerdict;
  /** Null: the pack has no checkpoint. */
  readonly log: LogCheck | null;
  /** Null: the records do not verify, or a newer version has to decide them. */
  readonly replay: ReplayReport | null;
  readonly chains: { readonly all: number; readonly proven: number; readonly cut: number };
  /** Records of the period that no proof of the log covers. */
  readonly unproven: number;
  readonly totals: PackTotals;
  readonly policies: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
  readonly passports: ReadonlyMap<string, SignedPassport['body']>;
  readonly approvals: readonly SignedApproval['body'][];
  /** Beyond those that the page names. */
  readonly approvalsUnnamed: number;
  readonly broken: Pick<End, 'broken' | 'broken_unnamed'>;
}

/** A file of a pack is missing, or is none. The message is for people. */
export class PackError extends Error {
  override readonly name = 'PackError';
}

/** The names of that many passports are kept for the page. */
const passportsKeptMax = 10_000;

/**
 * Reads the files of a pack in its folder, and nothing else: verifies the records, the proofs of the log by
 * the policy in the pack, decides the records again and adds them up. Reads the records four times. Throws
 * PackError.
 */
export async function checkPack(
  folder: string,
  progress: (text: string) => void = () => undefined,
): Promise<PackCheck> {
  const path = (name: keyof typeof packFiles) => join(folder, packFiles[name]);
  const scope = parseScope(await textOf(path('scope')));
  if (scope === null) throw new PackError(`${path('scope')} is not of a pack that this version can read`);
  const jwks = jsonOf(await textOf(path('jwks')), path('jwks'));
  const log = await logOf(path('checkpoint'), path('policy'));
  progress('verifying');
  try {
    const verdict = await verifyAttestations(bytesOf(path('records')), jwks);
    const reading = new Reading(scope, verdict.valid, log && { ...log, jwks });
    for (const pass of passes) {
      progress(`reading, ${pass}`);
      const lines = readExportLines(bytesOf(path('records')));
      for await (const { value } of lines) await reading.take(value, pass);
    }
    return { scope, verdict, ...reading.finish() };
  } catch (cause) {
    throw new PackError(`${path('records')} cannot be verified: ${messageOf(cause)}`);
  }
}

/** Opened when it is read: what is refused before leaves nothing open. */
async function* bytesOf(path: string): AsyncGenerator<Uint8Array> {
  yield* (await openPlainFile(path)).createReadStream({ highWaterMark: 256 * 1024 });
}

const passes = ['what is stated', 'sums', 'decisions'] as const;

interface Checkpoint {
  readonly text: string;
  readonly policy: string;
  readonly jwks: unknown;
}

async function logOf(checkpoint: string, policy: string): Promise<Omit<Checkpoint, 'jwks'> | null> {
  const text = await textOf(checkpoint, true);
  if (text === null) return null;
  const rewritten = rewriteOf(text);
  if (rewritten !== null) throw new PackError(`${checkpoint} cannot be used: ${rewritten}`);
  const rules = await textOf(policy);
  try {
    parseWitnessPolicy(nodeEd25519(), Buffer.from(rules));
  } catch (cause) {
    throw new PackError(`${policy} cannot be used: ${messageOf(cause)}`);
  }
  return { text, policy: rules };
}

/** The records of a pack, read three times. */
class Reading {
  readonly #scope: PackScope;
  readonly #checkpoint: Checkpoint | null;
  readonly #totals: PackTotals;
  readonly #policies = new Map<string, Readonly<Record<string, unknown>>>();
  readonly #passports = new Map<string, SignedPassport['body']>();
  readonly #approvals: SignedApproval['body'][] = [];
  readonly #named = new Set<string>();
  #approvalsUnnamed = 0;
  #replay: Replay | null;
  #log: LogCheck | null = null;
  #broken: PackCheck['broken'] = {};
  #chains = { all: 0, proven: 0, cut: 0 };
  #unproven = 0;
  #judged = 0;
  /** Of the chain that is read, up to where the log has it. */
  #provenTo = 0;

  constructor(scope: PackScope, isValid: boolean, checkpoint: Checkpoint | null) {
    this.#scope = scope;
    this.#checkpoint = checkpoint;
    this.#totals = new PackTotals(scope);
    this.#replay = isValid ? new Replay() : null;
  }

  async take(value: unknown, pass: (typeof passes)[number]): Promise<void> {
    const record = recordOf(value);
    if (pass !== 'what is stated') {
      if (record === null) return;
      const attestation = this.#replay === null ? null : parseAttestation(value);
      if (pass === 'sums') {
        this.#totals.add(record);
        if (attestation !== null) this.#replay?.add(attestation);
      } else if (attestation !== null) this.#replay?.judge(attestation, ++this.#judged);
      return;
    }
    if (record === null) return this.#learn(value);
    this.#totals.note(record);
    if (isInScope(this.#scope, record)) {
      const { approval_id: approval, refers_to: refersTo, chain_id: chain, sequence } = record;
      for (const id of [approval, refersTo])
        if (typeof id === 'string' && /^s?appr_/.test(id)) this.#named.add(`${chain} ${id}`);
      if (sequence > this.#provenTo) this.#unproven += 1;
    }
    const attestation = this.#replay === null ? null : parseAttestation(value);
    // Of a newer version: not decided again.
    if (attestation === null) this.#replay = null;
    else this.#replay?.note(attestation);
  }

  async #learn(value: unknown): Promise<void> {
    const chain = chainOf(value);
    if (chain !== null) {
      this.#chains.all += 1;
      if (chain.first_sequence > 1) this.#chains.cut += 1;
      this.#provenTo = chain.log_proof === undefined ? 0 : await this.#prove(chain.log_proof);
      return;
    }
    const end = endOf(value);
    if (end !== null) {
      const { broken, broken_unnamed: more } = end;
      this.#broken = { ...(broken && { broken }), ...(more && { broken_unnamed: more }) };
      return;
    }
    const statement = parseAttachment(value);
    if (statement === null) return;
    this.#replay?.learn(statement);
    if ('policy' in statement) this.#policies.set(statement.policy.policy_hash, statement.policy.body);
    else if ('passport' in statement && this.#passports.size < passportsKeptMax)
      this.#passports.set(statement.passport.body.passport_id, statement.passport.body);
    else if ('approval' in statement) {
      const { body } = statement.approval;
      if (!this.#named.has(`${body.passport_id} ${body.approval_id}`)) return;
      if (this.#approvals.length < pageLimits.approvalsMax) this.#approvals.push(body);
      else this.#approvalsUnnamed += 1;
    }
  }

  /** Up to which record of the chain the log has it; 0: the proof does not hold. */
  async #prove(proof: string): Promise<number> {
    const { text, policy, jwks } = this.#checkpoint ?? { text: '', policy: '', jwks: undefined };
    const asksNone = /^quorum\s+none\s*$/m.test(policy);
    const isIts = parseLogProof(proof)?.checkpoint === text;
    const found = isIts ? await verifyLogProof(proof, policy, { jwks }) : null;
    const fault =
      found === null ? 'it is of another checkpoint' : found.valid ? null : logProofFaults[found.fault];
    if (found?.valid === true) {
      const { origin, size, witnesses } = found;
      this.#log ??= { origin, size, witnesses: asksNone ? null : witnesses, fault: null };
      this.#chains.proven += 1;
      return found.head.sequence;
    }
    this.#log = { ...(this.#log ?? { origin: '', size: 0, witnesses: asksNone ? null : [] }), fault };
    return 0;
  }

  finish(): Omit<PackCheck, 'scope' | 'verdict'> {
    this.#totals.finish();
    return {
      log: this.#log,
      replay: this.#replay?.report() ?? null,
      chains: this.#chains,
      unproven: this.#unproven,
      totals: this.#totals,
      policies: this.#policies,
      passports: this.#passports,
      approvals: this.#approvals,
      approvalsUnnamed: this.#approvalsUnnamed,
      broken: this.#broken,
    };
  }
}

/** A pack holds no other file than the records that is larger than this. */
export const smallBytesMax = 4 * 1024 * 1024;

async function textOf(path: string): Promise<string>;
async function textOf(path: string, mayLack: boolean): Promise<string | null>;
async function textOf(path: string, mayLack = false): Promise<string | null> {
  try {
    return (await readPlainFile(path, smallBytesMax)).toString('utf8');
  } catch (cause) {
    if (mayLack && hasCode(cause, 'ENOENT')) return null;
    throw new PackError(`${path} cannot be read: ${messageOf(cause)}`);
  }
}

function jsonOf(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new PackError(`${path} is not JSON`);
  }
}

/** Whether nothing in the files speaks against another. */
export const isSoundPack = ({ verdict, log, replay }: PackCheck): boolean =>
  verdict.valid &&
  (log === null || log.fault === null) &&
  (replay === null || (replay.contradictions.length === 0 && replay.over_limits.length === 0));
