import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { federatedTokenHash } from '../../shared/model/federation.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import {
  renderOptionalTime,
  renderTime,
  type UnixMillis,
  type UnixSeconds,
} from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { Beside } from '../../shared/replay/backtest.ts';
import type { FormerPolicy, PastPassport, Undecided } from '../../shared/replay/decide-again.ts';
import { compileStatedPassport, statedCatalogTerms } from '../../shared/replay/evidence.ts';
import {
  conditionedPermissions,
  formerPolicyOf,
  type StatedPolicy,
  unconditional,
} from '../../shared/replay/former-policy.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readStale } from '../storage/replica-reads.ts';
import type { BacktestJob } from './backtest-store.ts';
import { backtestsLimits } from './limits.ts';

/** What the database knows beside records: their policies and passports, of each so many at once. */
export class PastFacts {
  readonly #sql: Database;
  readonly #job: BacktestJob;
  readonly #other: StatedPolicy;
  readonly #policies = new Map<string, FormerPolicy | Undecided>();
  readonly #passports = new Map<string, PastPassport | Undecided>();

  constructor(sql: Database, job: BacktestJob, other: StatedPolicy) {
    this.#sql = sql;
    this.#job = job;
    this.#other = other;
  }

  /** Before `of` these records. */
  async learn(records: readonly AttestationRecord[]): Promise<void> {
    const hashes = unknownOf(
      records.map(({ policyHash }) => policyHash),
      this.#policies,
    );
    const ids = unknownOf(
      records.map(({ passportId }) => passportId),
      this.#passports,
    );
    if (this.#policies.size + hashes.length > backtestsLimits.policiesMax) this.#policies.clear();
    if (this.#passports.size + ids.length > backtestsLimits.passportsMax) this.#passports.clear();
    const { accountId } = this.#job;
    for (const hash of unknownOf(
      records.map(({ policyHash }) => policyHash),
      this.#policies,
    )) {
      const stated = await readStale(this.#sql, accountId, (at) => readPolicy(at, this.#job, hash));
      const former = stated === null ? null : formerPolicyOf(this.#job, stated, this.#other);
      this.#policies.set(hash, stated === null ? 'policy_missing' : (former ?? 'policy_unknown'));
    }
    const unknown = unknownOf(
      records.map(({ passportId }) => passportId),
      this.#passports,
    );
    if (unknown.length === 0) return;
    const rows = await readStale(this.#sql, accountId, (at) => readPassports(at, unknown, this.#job.sinceMs));
    for (const id of unknown) this.#passports.set(id, 'passport_removed');
    for (const row of rows) this.#passports.set(row.passport_id, pastPassport(row));
  }

  of({ policyHash, passportId, asserted }: AttestationRecord): Beside {
    const former =
      policyHash === null ? 'policy_missing' : (this.#policies.get(policyHash) ?? 'policy_missing');
    const known = passportId === null ? null : (this.#passports.get(passportId) ?? 'passport_removed');
    return { former: asserted === null ? 'form_1' : former, known };
  }
}

const unknownOf = <Name extends string>(
  names: readonly (Name | null)[],
  known: ReadonlyMap<string, unknown>,
): readonly Name[] => [...new Set(names)].filter((name): name is Name => name !== null && !known.has(name));

/** One that a gate has had, with its catalog. Null: it is not kept. */
async function readPolicy(
  sql: Database | Transaction,
  job: Pick<BacktestJob, 'gateId'>,
  hash: string,
): Promise<StatedPolicy | null> {
  const [row] = await sql<{ body: string }[]>`SELECT body FROM policies WHERE policy_hash = ${hash}`;
  return row === undefined ? null : statedPolicy(sql, job, { hash, text: row.body });
}

/** The policy of this text, with the catalog of the gate that it names. */
export async function statedPolicy(
  sql: Database | Transaction,
  { gateId }: Pick<BacktestJob, 'gateId'>,
  { hash, text }: { readonly hash: string; readonly text: string },
): Promise<StatedPolicy> {
  const body: StatedPolicy['body'] = JSON.parse(text);
  const version = body['catalog_version'];
  if (typeof version !== 'number') return { hash, body, catalog: null };
  const entries = await sql<{ entry: unknown }[]>`
    SELECT entry FROM catalog_entries WHERE gate_id = ${gateId} AND version = ${version} ORDER BY position`;
  return { hash, body, catalog: statedCatalogTerms(entries.map(({ entry }) => entry)) };
}

interface PassportRow {
  readonly passport_id: PassportId;
  readonly account_id: string;
  readonly mode: string;
  readonly issuer_id: string;
  readonly agent_id: string;
  readonly owner: string | null;
  readonly permissions: string[];
  readonly constraints: Record<string, unknown>;
  readonly trust_tier: TrustTier;
  readonly public_key: string;
  readonly token_hash: string;
  readonly issuedAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis | null;
  readonly isIssuerActive: boolean;
}

/** Of any account: whoever has shown its passport at the gate. */
const readPassports = (
  sql: Database | Transaction,
  ids: readonly PassportId[],
  sinceMs: UnixMillis,
): Promise<readonly PassportRow[]> =>
  sql<PassportRow[]>`
    SELECT passport_id, p.account_id, p.mode, p.issuer_id, agent_id, owner, permissions, constraints, p.trust_tier,
      public_key, token_hash, issued_at_ms AS "issuedAtMs", expires_at_ms AS "expiresAtMs",
      i.status = 'active' AND NOT EXISTS (
        SELECT FROM audit_entries a
        WHERE a.account_id = i.account_id AND a.mode = i.mode AND a.target = i.issuer_id
          AND a.operation = 'updateIssuer' AND a.created_at_ms >= ${sinceMs}
      ) AS "isIssuerActive"
    FROM passports p JOIN issuers i USING (issuer_id) WHERE passport_id = ANY(${[...ids]}::text[])`;

function pastPassport({
  issuedAtMs,
  expiresAtMs,
  isIssuerActive,
  ...row
}: PassportRow): PastPassport | Undecided {
  const isFederated = row.token_hash === federatedTokenHash;
  const passport = compileStatedPassport({
    ...row,
    constraints: isFederated ? {} : unconditional(row.constraints),
    issued_at: renderTime(issuedAtMs),
    expires_at: renderOptionalTime(expiresAtMs),
  });
  if (passport === null) return 'policy_unknown';
  // Whoever was decided on had a passport that was good, or the record says that it was not.
  return {
    passport: { ...passport, notBeforeS: 0 as UnixSeconds, expiresAtS: null },
    isFederated,
    isIssuerActive,
    conditions: isFederated ? [] : conditionedPermissions(row.constraints),
  };
}
