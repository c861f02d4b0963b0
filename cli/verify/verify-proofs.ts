import { isAuditStart } from '../../shared/audit/export.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { type ProofVerdict, proofFaults, verifyLogProof } from '../../shared/log/proof.ts';
import {
  type OfflineClock,
  parseWitnessPolicy,
  policyBounds,
  type WitnessPolicy,
} from '../../shared/log/witness-policy.ts';
import { cliLimits } from '../base/limits.ts';

/** Reads a file of at most so many bytes; throws an Error that says why not. */
type ReadFile = (path: string, bytesMax: number) => Promise<Uint8Array>;

interface Proven {
  readonly file: string;
  readonly chainId: string;
  readonly sequence: number;
  readonly hash: string;
  /** For the verdict. */
  readonly by: string;
  /** Of the record there; null: none was seen. */
  found: string | null;
}

/** A proof or policy that cannot be used. */
export interface ProofProblem {
  /** Whether the file was read and says something wrong. */
  readonly isFalse: boolean;
  readonly message: string;
}

/**
 * Proofs of the log, beside an export and in the headers of its chains (docs/log.md), by a policy that says
 * whom to believe. One beside the export names a head of a chain, and the export has to have that record with
 * that hash: a record that the log has and the export lacks was cut off. Those in headers are held against
 * their records by the verifier of the export.
 */
export class ProofCheck {
  readonly #proven: readonly Proven[];
  readonly #policy: WitnessPolicy;
  readonly #clock: OfflineClock;
  /** Chains whose header has a proof. */
  #chains = 0;
  /** The first one that does not count; null: all do. */
  #fault: string | null = null;
  /** Of an export of the audit, which does not name its chain in each entry; null: of attestations. */
  #auditChain: string | null = null;

  private constructor(proven: readonly Proven[], policy: WitnessPolicy, clock: OfflineClock) {
    this.#proven = proven;
    this.#policy = policy;
    this.#clock = clock;
  }

  static async read(
    files: readonly string[],
    {
      policy,
      readFile,
      ed25519,
      clock,
    }: {
      readonly policy: string;
      readonly readFile: ReadFile;
      readonly ed25519: Ed25519;
      readonly clock: OfflineClock;
    },
  ): Promise<ProofCheck | ProofProblem> {
    let path = policy;
    try {
      const rules = parseWitnessPolicy(ed25519, await readFile(policy, policyBounds.bytesMax));
      const proven: Proven[] = [];
      for (const file of files) {
        path = file;
        const text = Buffer.from(await readFile(file, cliLimits.proofBytesMax)).toString();
        const rewritten = rewriteOf(text);
        if (rewritten !== null) throw new Error(rewritten);
        const read = proofOf(file, verifyLogProof(text, rules, clock));
        if ('message' in read) return read;
        proven.push(read);
      }
      return new ProofCheck(proven, rules, clock);
    } catch (cause) {
      return {
        isFalse: false,
        message: `${path} cannot be used: ${messageOf(cause)}`,
      };
    }
  }

  /** A line of a file that is verified: jsonl, or the same in a JSON export. */
  see(line: string): void {
    const [, inHeader] = /"log_proof":("(?:[^"\\]|\\.)*")/.exec(line) ?? [];
    if (inHeader !== undefined) this.#seeHeader(JSON.parse(inHeader));
    if (line.startsWith('{"manifest":')) this.#auditChain = auditChainOf(line);
    for (const proven of this.#proven) {
      const isNamed = proven.chainId === this.#auditChain || line.includes(`"chain_id":"${proven.chainId}"`);
      if (!isNamed || !line.includes(`"sequence":${proven.sequence},`)) continue;
      const record = recordOf(line);
      const chainId = this.#auditChain ?? record?.chain_id;
      const isIt = chainId === proven.chainId && record?.sequence === proven.sequence;
      if (isIt && typeof record?.hash === 'string') proven.found = record.hash;
    }
  }

  #seeHeader(proof: string): void {
    const verdict = verifyLogProof(proof, this.#policy, this.#clock);
    if (verdict.kind === 'valid') this.#chains += 1;
    else this.#fault ??= faultOf(verdict);
  }

  /** One line for each proof, up to the first that does not hold. */
  finish(): { readonly isSound: boolean; readonly text: string } {
    if (this.#fault !== null)
      return { isSound: false, text: `NOT OK: a proof of the log in a chain header: ${this.#fault}.\n` };
    let text = `The log has ${this.#chains} of these chains, by proofs in the file that the policy accepts.\n`;
    for (const { file, chainId, sequence, hash, by, found } of this.#proven) {
      if (found !== hash) {
        const why =
          found === null
            ? `the log has record ${sequence} of chain ${chainId}, and the export has not: it was cut off, or begins later`
            : `record ${sequence} of chain ${chainId} is not the one that the log has`;
        return { isSound: false, text: `${text}NOT OK: ${file}: ${why}.\n` };
      }
      text += `OK: ${file}: chain ${chainId} up to record ${sequence} is in the log, ${by}.\n`;
    }
    return { isSound: true, text };
  }
}

/** As the log names the chain of an audit (docs/log.md). */
function auditChainOf(line: string): string | null {
  if (!isAuditStart(line)) return null;
  const [, account, mode] = /"account_id":"([^"]+)".*"mode":"([a-z]+)"/.exec(line) ?? [];
  return account === undefined ? null : `audit:${account}:${mode}`;
}

/** What another program has made of the bytes of a proof, in words; null: nothing that shows. */
export function rewriteOf(text: string): string | null {
  const fetchAgain = 'a proof counts byte for byte, so fetch it again';
  if (text.startsWith('\ufeff')) return `it begins with a byte order mark; ${fetchAgain}`;
  if (text.includes('\r')) return `its lines end as on Windows (CRLF); ${fetchAgain}`;
  return text.endsWith('\n') ? null : `its last line has no end; ${fetchAgain}`;
}

const faultOf = (verdict: Extract<ProofVerdict, { kind: 'invalid' }>): string =>
  proofFaults[verdict.fault] + untimelyOf(verdict);

const untimelyOf = ({ untimely = [] }: Pick<ProofVerdict, 'untimely'>): string =>
  untimely.length === 0 ? '' : `; not counted, because of its time: that of ${untimely.join(', ')}`;

function proofOf(file: string, verdict: ProofVerdict): Proven | ProofProblem {
  if (verdict.kind === 'invalid') return { isFalse: true, message: `${file}: ${faultOf(verdict)}` };
  const { head, size, witnesses } = verdict;
  const cosigned = witnesses.length === 0 ? 'without witnesses' : `cosigned by ${witnesses.join(', ')}`;
  const by = `whose tree of ${size} entries is ${cosigned}${untimelyOf(verdict)}`;
  return { ...head, file, by, found: null };
}

function recordOf(line: string): { chain_id?: unknown; sequence?: unknown; hash?: unknown } | null {
  const [text] = /\{.*\}/.exec(line) ?? [];
  try {
    return text === undefined ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
