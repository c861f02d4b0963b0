import type { Attachment } from '../../shared/attestation/attachments.ts';
import { checkCondition } from '../../shared/condition/check-condition.ts';
import type { CheckedForm } from '../../shared/condition/form.ts';
import type { Attestation } from '../../shared/model/attestation.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderOptionalTime, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { AnswerProof } from '../../shared/wire/evidence/answer-proof.ts';
import { evidenceLimits, signEvidence } from '../../shared/wire/evidence/evidence.ts';
import type { SignedPolicy } from '../../shared/wire/evidence/policy.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningKey } from '../signing/signing-keys.ts';
import { ExportedNames } from './exported-names.ts';

/** Each may have 64 KiB. */
const largePerPage = 20;
const smallPerPage = 100;

type Pages = AsyncGenerator<readonly Attachment[]>;

/**
 * What the records of an export name, for the end of it. Memory holds the names, and a page of the rest. A
 * policy or a catalog that is gone is left out, and the verifier misses it; a passport or an approval that is
 * gone is stated.
 */
export class ExportAttachments {
  readonly #tx: Transaction;
  readonly #owner: Owner;
  readonly #key: SigningKey;
  readonly #asOfMs: number;
  /** Whose checked forms are wanted; null: of none. */
  readonly #expressions: Set<string> | null;
  readonly #names = new ExportedNames();

  /**
   * Passports and approvals are signed with the key. `asOfMs`: what became of them since is left out; null:
   * nothing is. `withForms`: conditions follow in their checked form.
   */
  constructor(
    tx: Transaction,
    owner: Owner,
    {
      key,
      asOfMs,
      withForms,
    }: { readonly key: SigningKey; readonly asOfMs: UnixMillis | null; readonly withForms: boolean },
  ) {
    this.#tx = tx;
    this.#owner = owner;
    this.#key = key;
    this.#asOfMs = asOfMs ?? Number.MAX_SAFE_INTEGER;
    this.#expressions = withForms ? new Set() : null;
  }

  name(record: Attestation): void {
    this.#names.add(record);
  }

  async *pages(): Pages {
    const tx = this.#tx;
    const catalogs = new Map<string, CatalogPlace>();
    for (const hashes of pagesOf([...this.#names.policies].sort(), largePerPage)) {
      const policies = await readPolicies(tx, hashes);
      for (const { policy, gateId } of policies) {
        const { catalog_hash: hash, catalog_version: version } = policy.body;
        if (typeof hash === 'string' && gateId !== null)
          catalogs.set(hash, { hash, gateId, version: Number(version) });
        this.#learnExpressions(policy.body['constraints']);
      }
      yield policies.map(({ policy }) => ({ policy }));
    }
    const named = [...catalogs.values()].sort((one, other) => (one.hash < other.hash ? -1 : 1));
    for (const places of pagesOf(named, largePerPage))
      yield (await readCatalogs(tx, places)).map((catalog) => ({ catalog }));
    for (const ids of pagesOf(this.#names.passports(), smallPerPage)) {
      const found = await readPassports(tx, this.#owner, { ids, asOfMs: this.#asOfMs });
      const rows = new Map(found.map((row) => [row.passport_id, row]));
      yield ids.map((passport_id) => {
        const row = rows.get(passport_id);
        this.#learnExpressions(row?.constraints);
        const body = row === undefined ? { passport_id, removed: true as const } : passportBody(row);
        return { passport: signEvidence('passport', body, this.#key) };
      });
    }
    for (const names of pagesOf(this.#names.approvals(), smallPerPage))
      yield (await readApprovals(tx, names, this.#asOfMs)).map((body) => ({
        approval: signEvidence('approval', body, this.#key),
      }));
    const forms = [...(this.#expressions ?? [])].flatMap(checkedForm);
    const conditions = forms.map((body) => signEvidence('condition', body, this.#key));
    conditions.sort((one, other) => (one.hash < other.hash ? -1 : 1));
    for (const page of pagesOf(conditions, largePerPage)) yield page.map((condition) => ({ condition }));
  }

  #learnExpressions(constraints: unknown): void {
    if (this.#expressions === null) return;
    const { conditions = [] } = (constraints ?? {}) as {
      readonly conditions?: readonly { require: string }[];
    };
    for (const { require } of conditions)
      if (this.#expressions.size < evidenceLimits.conditionsMax) this.#expressions.add(require);
  }
}

/** None: an older version of the service took it, and this one does not. */
function checkedForm(require: string): readonly { readonly form: CheckedForm; readonly require: string }[] {
  const checked = checkCondition(require);
  return 'form' in checked ? [{ form: checked.form, require }] : [];
}

function* pagesOf<Name>(names: Iterable<Name>, size: number): Generator<Name[]> {
  let page: Name[] = [];
  for (const name of names) {
    page.push(name);
    if (page.length < size) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

/** With a gate that has had it: where the policy has a catalog, the one gate. */
async function readPolicies(tx: Transaction, hashes: readonly string[]) {
  const rows = await tx<
    (Omit<SignedPolicy, 'body'> & { readonly text: string; readonly gateId: GateId | null })[]
  >`
    SELECT policy_hash, body AS text, signature, signing_key_id, (
      SELECT gate_id FROM gate_policies g WHERE g.policy_hash = policies.policy_hash LIMIT 1
    ) AS "gateId"
    FROM policies WHERE policy_hash = ANY(${hashes}::text[]) ORDER BY policy_hash COLLATE "C"`;
  return rows.map(({ text, gateId, ...signed }) => {
    const policy: SignedPolicy = { ...signed, body: JSON.parse(text) };
    return { gateId, policy };
  });
}

interface CatalogPlace {
  readonly hash: string;
  readonly gateId: GateId;
  readonly version: number;
}

/** As they were signed: unread, so that a row that nothing else can read is exported, too. */
async function readCatalogs(tx: Transaction, places: readonly CatalogPlace[]) {
  const rows = await tx<CatalogRow[]>`
    SELECT gate_id, version, c.more, c.published_at_ms AS "publishedAtMs", c.content_hash, c.signature,
      c.signing_key_id, (
        SELECT coalesce(jsonb_agg(e.entry ORDER BY e.position), '[]') FROM catalog_entries e
        WHERE e.gate_id = c.gate_id AND e.version = c.version
      ) AS permissions
    FROM unnest(${places.map(({ gateId }) => gateId)}::text[], ${places.map(({ version }) => version)}::bigint[])
      AS named (gate_id, version)
    JOIN catalogs c USING (gate_id, version) ORDER BY c.content_hash COLLATE "C"`;
  return rows.map(({ more, publishedAtMs, ...signed }) => ({
    ...more,
    ...signed,
    published_at: renderTime(publishedAtMs),
  }));
}

interface CatalogRow {
  readonly gate_id: string;
  readonly version: number;
  readonly more: Readonly<Record<string, unknown>>;
  readonly publishedAtMs: UnixMillis;
  readonly content_hash: string;
  readonly signature: string;
  readonly signing_key_id: string;
  readonly permissions: readonly unknown[];
}

interface PassportRow {
  readonly passport_id: string;
  readonly account_id: string;
  readonly mode: string;
  readonly issuer_id: string;
  readonly agent_id: string;
  readonly agent_name: string;
  readonly owner: string | null;
  readonly permissions: string[];
  readonly constraints: Record<string, unknown>;
  readonly trust_tier: TrustTier;
  readonly public_key: string;
  readonly token_hash: string;
  readonly token_signing_key_id: string;
  readonly issuedAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis | null;
  readonly revokedAtMs: UnixMillis | null;
  /** The newest of them, newest first. */
  readonly moves: readonly { readonly to: 'active' | 'suspended'; readonly atMs: UnixMillis }[];
  readonly moveCount: number;
}

/** The account's own suspensions have their times in the audit alone. */
const readPassports = (
  tx: Transaction,
  { accountId, mode }: Owner,
  { ids, asOfMs }: { readonly ids: readonly string[]; readonly asOfMs: number },
) =>
  tx<PassportRow[]>`
    SELECT passport_id, p.account_id, p.mode, issuer_id, agent_id, agent_name, owner, permissions, constraints,
      trust_tier, public_key, token_hash, signing_key_id AS token_signing_key_id, issued_at_ms AS "issuedAtMs",
      expires_at_ms AS "expiresAtMs",
      CASE WHEN revoked_at_ms < ${asOfMs}::bigint THEN revoked_at_ms END AS "revokedAtMs", moved.moves, moved.count AS "moveCount"
    FROM passports p CROSS JOIN LATERAL (
      SELECT count(*) AS count, coalesce(jsonb_agg(jsonb_build_object('to', status, 'atMs', created_at_ms)
          ORDER BY created_at_ms DESC, sequence DESC)
        FILTER (WHERE place <= ${evidenceLimits.statusChangesMax}), '[]') AS moves
      FROM (
        SELECT created_at_ms, sequence,
          CASE operation WHEN 'suspendPassport' THEN 'suspended' ELSE 'active' END AS status,
          row_number() OVER (ORDER BY created_at_ms DESC, sequence DESC) AS place
        FROM audit_entries a
        WHERE a.account_id = p.account_id AND a.mode = p.mode AND target = p.passport_id
          AND operation IN ('suspendPassport', 'reactivatePassport') AND created_at_ms < ${asOfMs}::bigint
          AND coalesce(after->>'cause', 'account') = 'account'
      ) AS entries
    ) AS moved
    WHERE passport_id = ANY(${ids}::text[]) AND p.account_id = ${accountId} AND p.mode = ${mode}`;

function passportBody({ issuedAtMs, expiresAtMs, revokedAtMs, moves, moveCount, ...row }: PassportRow) {
  const changes = moves.map(({ to, atMs }) => ({ at: renderTime(atMs), status: to })).reverse();
  return {
    ...row,
    issued_at: renderTime(issuedAtMs),
    expires_at: renderOptionalTime(expiresAtMs),
    status_changes: [
      ...changes,
      ...(revokedAtMs === null ? [] : [{ at: renderTime(revokedAtMs), status: 'revoked' as const }]),
    ],
    status_changes_omitted: moveCount - moves.length,
  };
}

interface ApprovalRow {
  readonly approval_id: string;
  readonly passport_id: string;
  readonly gate_id: string;
  readonly permission_key: string | null;
  readonly request_hash: string;
  readonly amount_micro_usd: number | null;
  readonly requesters: string[] | null;
  readonly resolved_by: string | null;
  readonly createdAtMs: UnixMillis;
  readonly resolvedAtMs: UnixMillis | null;
  readonly answers: readonly AnswerRow[];
  readonly answerCount: number;
}

interface AnswerRow {
  readonly user_id: string;
  readonly answer: 'approved' | 'denied';
  readonly atMs: UnixMillis;
  readonly undoneAtMs: UnixMillis | null;
  readonly assertion: AnswerProof | null;
}

interface StandingRow {
  readonly approval_id: string;
  /** Null: it is for passports of an owner. */
  readonly passport_id: string | null;
  readonly owner: string | null;
  readonly gate_id: string;
  readonly permission_key: string;
  readonly each_micro_usd: number;
  readonly total_micro_usd: number;
  readonly created_by: string;
  readonly ended_by: string | null;
  readonly createdAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis;
  readonly endedAtMs: UnixMillis | null;
}

/** Of these names of `ExportedNames`, in their order. */
async function readApprovals(tx: Transaction, names: readonly string[], asOfMs: number) {
  const wanted = names.map((name) => name.split(' ') as [passportId: string, approvalId: string]);
  const ids = wanted.map(([, approvalId]) => approvalId);
  const asked = await readAsked(tx, ids, asOfMs);
  const standing = await readStanding(tx, ids, asOfMs);
  const bodies = new Map(
    [...asked.map(askedBody), ...standing.map(standingBody)].map((body) => [body.approval_id, body]),
  );
  return wanted.map(([passportId, approvalId]) => {
    const body = bodies.get(approvalId);
    // One for an owner is named by chains of several passports, and listed with each.
    if (body !== undefined && (body.passport_id ?? passportId) === passportId)
      return { ...body, passport_id: passportId };
    return { approval_id: approvalId, passport_id: passportId, removed: true as const };
  });
}

const readAsked = (tx: Transaction, ids: readonly string[], asOfMs: number) => tx<ApprovalRow[]>`
  SELECT a.approval_id, passport_id, gate_id, permission_key, request_hash, amount_micro_usd, requesters,
    CASE WHEN resolved_at_ms < ${asOfMs}::bigint THEN resolved_by END AS resolved_by, created_at_ms AS "createdAtMs",
    CASE WHEN resolved_at_ms < ${asOfMs}::bigint THEN resolved_at_ms END AS "resolvedAtMs",
    given.answers, given.count AS "answerCount"
  FROM approvals a CROSS JOIN LATERAL (
    SELECT count(*) AS count, coalesce(jsonb_agg(jsonb_build_object('user_id', user_id, 'answer', answer, 'atMs', at_ms,
        'undoneAtMs', undone, 'assertion', assertion) ORDER BY place)
      FILTER (WHERE nth <= ${evidenceLimits.answersMax}), '[]') AS answers
    FROM (
      SELECT *, row_number() OVER (ORDER BY undone IS NULL DESC, place DESC) AS nth
      FROM (
        SELECT *, CASE WHEN undone_at_ms < ${asOfMs}::bigint THEN undone_at_ms END AS undone
        FROM approval_answers WHERE approval_id = a.approval_id AND at_ms < ${asOfMs}::bigint
      ) AS then_known
    ) AS every
  ) AS given
  WHERE a.approval_id = ANY(${ids}::text[])`;

const readStanding = (tx: Transaction, ids: readonly string[], asOfMs: number) => tx<StandingRow[]>`
  SELECT standing_approval_id AS approval_id, passport_id, owner, gate_id, permission_key, each_micro_usd, total_micro_usd,
    created_by, CASE WHEN ended_at_ms < ${asOfMs}::bigint THEN ended_by END AS ended_by,
    created_at_ms AS "createdAtMs", expires_at_ms AS "expiresAtMs",
    CASE WHEN ended_at_ms < ${asOfMs}::bigint THEN ended_at_ms END AS "endedAtMs"
  FROM standing_approvals WHERE standing_approval_id = ANY(${ids}::text[])`;

const askedBody = ({ createdAtMs, resolvedAtMs, answers, answerCount, ...row }: ApprovalRow) => ({
  ...row,
  created_at: renderTime(createdAtMs),
  resolved_at: renderOptionalTime(resolvedAtMs),
  answers: answers.map(({ atMs, undoneAtMs, ...answer }) => ({
    ...answer,
    at: renderTime(atMs),
    undone_at: renderOptionalTime(undoneAtMs),
  })),
  answers_omitted: answerCount - answers.length,
});

const standingBody = ({ createdAtMs, expiresAtMs, endedAtMs, owner, ...row }: StandingRow) => ({
  ...row,
  ...(owner !== null && { owner }),
  created_at: renderTime(createdAtMs),
  expires_at: renderTime(expiresAtMs),
  ended_at: renderOptionalTime(endedAtMs),
});
