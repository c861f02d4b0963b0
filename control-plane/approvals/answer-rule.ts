import type { UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { User } from '../../shared/model/user.ts';
import { parseGateRoutes } from '../../shared/wire/api/gate-routes.ts';
import { policyHash } from '../../shared/wire/api/policy-hash.ts';
import type { Database, Transaction } from '../base/database.ts';
import { findOnePeople } from '../people/one-people.ts';
import { findUsers } from '../people/user-store.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';
import type { StoredApproval } from './approval-store.ts';
import { type AnswerRule, anyAnswerer, type Person } from './why-not-to-answer.ts';

interface PolicyRow {
  readonly trustLevel: TrustTier;
  readonly constraints: unknown;
  readonly routes: unknown;
  readonly catalogVersion: number | null;
  readonly contentHash: string | null;
}

/** Null: the policy that the approval is bound to is not in force any more. */
export async function readAnswerRule(
  sql: Database | Transaction,
  { gateId, gateVersion }: Pick<StoredApproval, 'gateId' | 'gateVersion'>,
): Promise<AnswerRule | null> {
  const [row] = await sql<PolicyRow[]>`
    SELECT trust_level AS "trustLevel", constraints, routes, c.version AS "catalogVersion",
      c.content_hash AS "contentHash"
    FROM gates LEFT JOIN LATERAL (
      SELECT version, content_hash FROM catalogs WHERE catalogs.gate_id = gates.gate_id
      ORDER BY version DESC LIMIT 1) c ON true
    WHERE gates.gate_id = ${gateId} AND policy_version = ${gateVersion} AND deleted_at_ms IS NULL`;
  if (row === undefined) return null;
  const { trustLevel, catalogVersion: version, contentHash } = row;
  const constraints = readStoredConstraints(row.constraints, 'gate');
  const { approvers, passkey } = constraints.approvals ?? anyAnswerer;
  if (!passkey) return { approvers, passkey, policyHash: null };
  const routes = parseGateRoutes(row.routes ?? []);
  const catalog = version === null || contentHash === null ? null : { version, contentHash };
  return { approvers, passkey, policyHash: policyHash({ trustLevel, constraints, routes, catalog }) };
}

/** The people who have answered, and this one, as they are now. */
export async function readAnswerers(
  sql: Database | Transaction,
  { answers, gateAccountId }: Pick<StoredApproval, 'answers' | 'gateAccountId'>,
  {
    rule,
    also,
    nowMs,
  }: { readonly rule: AnswerRule; readonly also: UserId | null; readonly nowMs: UnixMillis },
): Promise<ReadonlyMap<UserId, User & Person>> {
  const ids = [...answers.map(({ userId }) => userId), ...(also === null ? [] : [also])];
  const users = ids.length === 0 ? [] : await findUsers(sql, gateAccountId, ids);
  const one =
    rule.approvers?.independent === true && users.length > 0
      ? await findOnePeople(sql, gateAccountId, { nowMs })
      : null;
  return new Map(
    users.map((user) => [user.userId, { ...user, oneOf: one?.oneOf(user.userId) ?? user.userId }]),
  );
}
