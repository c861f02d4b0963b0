import { createHash } from 'node:crypto';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountStatus } from '../../shared/model/account.ts';
import { type IdDigest, idDigestBytes } from '../../shared/model/id-digest.ts';
import type { AccountId, GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { publicUrlOf } from '../../shared/wire/api/console-url.ts';
import { type GateConstraints, hideFromOlder } from '../../shared/wire/api/constraints.ts';
import { globalFeed, syncVersion } from '../../shared/wire/sync/sync.ts';
import type {
  ApiKeyBody,
  FederationInFeed,
  GateBody,
  PassportStandingGroup,
  ShadowBody,
  Snapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import { snapshotSignatures } from '../../shared/wire/sync/sync-signature.ts';
import type { Transaction } from '../base/database.ts';
import { readGenerations } from '../history/history-store.ts';
import { feedsReceipt } from '../history/receipts.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { publicHalf, readSigningKeys } from '../signing/signing-key-store.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { readHeads, readMark } from './feed-store.ts';
import { syncLimits } from './limits.ts';

/**
 * Everything that a sidecar of this account needs, as of one moment: one REPEATABLE READ transaction, so that
 * the state is exactly what the changes up to the named revisions made of it. Both modes are in it, because a
 * sidecar serves all gates of its account.
 *
 * Resolves to the JSON of a SignedSnapshot in pieces. Gates with the largest catalogs make it a few hundred
 * megabytes: read, hashed and written as a whole it would stop the event loop for seconds.
 */
export async function takeSnapshot(
  deps: Pick<SigningDeps, 'sql' | 'signingKeys' | 'sealer' | 'baseUrl'>,
  accountId: AccountId,
): Promise<readonly Uint8Array[]> {
  const text = makeText();
  const snapshot = await deps.sql.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', async (tx) => {
    const rest = await readAllButGates(tx, deps, accountId);
    text.add(`${JSON.stringify(rest).slice(0, -1)},"gates":[`);
    await addGates(tx, { accountId, takenAtMs: rest.taken_at_ms }, text);
    text.add(']}');
    return rest;
  });
  // This replica may not have heard yet that a key is compromised; the snapshot has.
  const isBelieved = (kid: string) =>
    snapshot.signing_keys.some((key) => key.kid === kid && !key.compromised);
  const keys = deps.signingKeys.vouching('sync').filter(({ kid }) => isBelieved(kid));
  const signatures = JSON.stringify(snapshotSignatures(keys, text.hash()));
  const receipt = feedsReceipt(
    deps.sealer,
    { accountId, generation: snapshot.generation },
    {
      account: { revision: snapshot.account_revision, mark: snapshot.account_mark },
      global: { revision: snapshot.global_revision, mark: snapshot.global_mark },
    },
  );
  const end = `","signatures":${signatures},"receipt":${JSON.stringify(receipt)}}`;
  return [Buffer.from('{"snapshot":"'), ...text.quoted, Buffer.from(end)];
}

/** The text of a snapshot: its hash, and its pieces as they stand between the quotes of a JSON string. */
function makeText() {
  const hash = createHash('sha256');
  const quoted: Uint8Array[] = [];
  return {
    quoted,
    /** Each piece is text that is whole: no half of a surrogate pair. */
    add: (piece: string): void => {
      hash.update(piece);
      quoted.push(Buffer.from(JSON.stringify(piece).slice(1, -1)));
    },
    hash: (): string => `sha256:${hash.digest('hex')}`,
  };
}

/** Each statement gives the event loop a turn. */
async function addGates(
  tx: Transaction,
  { accountId, takenAtMs }: { readonly accountId: AccountId; readonly takenAtMs: UnixMillis },
  text: { add(piece: string): void },
): Promise<void> {
  const found = await tx<{ gate_id: GateId }[]>`
    SELECT gate_id FROM gates WHERE account_id = ${accountId} AND deleted_at_ms IS NULL ORDER BY gate_id`;
  const ids = found.map(({ gate_id }) => gate_id);
  for (let first = 0; first < ids.length; first += syncLimits.snapshotGatesPerTurn) {
    const rows = await tx<
      (GateBody & {
        readonly standing_approvals: GateBody['standing_approvals'] | null;
        readonly shadow: ShadowBody | null;
      })[]
    >`
      SELECT gate_id, account_id, mode, version, policy_version, policy_hash, trust_level, constraints, routes,
        catalog_prices AS catalog, catalog_approvals, condition_forms,
        ${standingApprovals(tx, takenAtMs)} AS standing_approvals, ${shadowOf(tx, takenAtMs)} AS shadow
      FROM gates LEFT JOIN gate_policies USING (gate_id, policy_version)
      WHERE gate_id = ANY(${ids.slice(first, first + syncLimits.snapshotGatesPerTurn)}::text[]) ORDER BY gate_id`;
    const gates = rows.map(({ standing_approvals: standing, policy_hash: policyHash, ...row }) => {
      const { condition_forms: forms, shadow, ...gate } = row;
      const told = withoutAnswerRule(withoutHoldRule(gate));
      return {
        ...told,
        ...hideFromOlder(told.constraints),
        ...(forms != null && { condition_forms: forms }),
        ...(policyHash != null && { policy_hash: policyHash }),
        ...(standing !== null && { standing_approvals: standing }),
        ...(shadow !== null && { shadow: { ...shadow, constraints: forSidecars(shadow) } }),
      };
    });
    text.add(`${first === 0 ? '' : ','}${JSON.stringify(gates).slice(1, -1)}`);
  }
}

/** As `renderGateForSidecars` renders it. */
function withoutHoldRule(gate: GateBody): GateBody {
  const { holds, ...others } = gate.constraints as GateConstraints;
  if (holds === undefined) return gate;
  const { expires_in_s: seconds } = holds;
  return {
    ...gate,
    constraints: others,
    ...(seconds !== undefined && { hold_expires_in_ms: seconds * secondMs }),
  };
}

/** As `renderGateForSidecars` renders it: 0.2.0 refuses members of constraints that it does not know. */
function withoutAnswerRule(gate: GateBody): GateBody {
  const { approvals, ...others } = gate.constraints;
  const { approvers, passkey, ...asked } = (approvals ?? {}) as GateConstraints['approvals'] & object;
  if (approvers === undefined && passkey === undefined) return gate;
  return {
    ...gate,
    constraints: { ...others, approvals: asked },
    ...(approvers !== undefined && approvers.not_requester !== false && { names_asker: true }),
  };
}

const forSidecars = ({ constraints }: ShadowBody): GateBody['constraints'] =>
  withoutAnswerRule(withoutHoldRule({ constraints } as GateBody)).constraints;

/** Of one gate, as `renderGateForSidecars` renders it, but for its constraints; null: none. */
const shadowOf = (tx: Transaction, nowMs: UnixMillis) => tx`(
  SELECT jsonb_strip_nulls(jsonb_build_object('policy_hash', policy_hash, 'expires_at_ms', expires_at_ms,
    'trust_level', trust_level, 'routes', routes)) || jsonb_build_object('constraints', constraints)
  FROM gate_shadows s WHERE s.gate_id = gates.gate_id AND s.base_policy_version = gates.policy_version
    AND s.ended_at_ms IS NULL AND s.expires_at_ms > ${nowMs})`;

/** Of one gate, as `renderStandingApprovalForSidecars` renders them; null: none. */
const standingApprovals = (tx: Transaction, nowMs: UnixMillis) => tx`(
  SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('standing_approval_id', standing_approval_id,
    'passport_id', passport_id, 'owner', owner, 'permission_key', permission_key, 'each_micro_usd', each_micro_usd,
    'total_micro_usd', total_micro_usd, 'expires_at_ms', expires_at_ms)) ORDER BY standing_approval_id)
  FROM standing_approvals s
  WHERE s.gate_id = gates.gate_id AND s.ended_at_ms IS NULL AND s.expires_at_ms > ${nowMs})`;

async function readAllButGates(
  tx: Transaction,
  { signingKeys, baseUrl }: Pick<SigningDeps, 'signingKeys' | 'baseUrl'>,
  accountId: AccountId,
): Promise<Omit<Snapshot, 'gates'> & { readonly generation: string }> {
  const [clock] = await tx<{ nowMs: UnixMillis }[]>`SELECT ${databaseNowMs(tx)} AS "nowMs"`;
  const takenAtMs = must(clock, 'a clock shows a time').nowMs;
  const heads = await readHeads(tx, accountId);
  const generations = await readGenerations(tx);
  const [account] = await tx<{ status: AccountStatus }[]>`
    SELECT status FROM accounts WHERE account_id = ${accountId}`;
  const apiKeys = await tx<ApiKeyBody[]>`
    SELECT key_id, key_hash, mode, scopes, expires_at_ms FROM api_keys
    WHERE account_id = ${accountId} AND revoked_at_ms IS NULL
      AND (expires_at_ms IS NULL OR expires_at_ms > ${takenAtMs}) ORDER BY key_id`;
  const federations = await tx<FederationInFeed[]>`
    SELECT f.issuer_id, f.account_id, f.mode, f.version, issuers.status = 'active' AS is_active,
      CASE f.account_id WHEN ${accountId} THEN f.settings ELSE f.settings - 'jwks_uri' END AS settings,
      (SELECT jsonb_agg(jsonb_build_object('kid', key->'kid', 'algorithm', key->'algorithm', 'public_key', key->'publicKey'))
        FROM jsonb_array_elements(f.keys) AS key) AS keys, f.keys_at_ms, issuers.wallet_since_ms IS NOT NULL AS has_wallets
    FROM federations f JOIN issuers ON issuers.issuer_id = f.issuer_id COLLATE "default"
    WHERE f.issuer_id IN (
      SELECT issuer_id FROM federations WHERE account_id = ${accountId}
      UNION SELECT n.issuer_id FROM gates
      CROSS JOIN jsonb_array_elements_text(constraints->'trusted_issuers') AS named (issuer_id)
      JOIN federations n ON n.issuer_id = named.issuer_id AND n.mode = gates.mode
      WHERE gates.account_id = ${accountId} AND deleted_at_ms IS NULL
        AND jsonb_typeof(constraints->'trusted_issuers') = 'array')
    ORDER BY f.issuer_id`;
  const standings = await readStandings(tx, takenAtMs);
  const issuers = await tx<{ digest: Uint8Array }[]>`
    SELECT ${digestOf(tx, 'issuer_id')} AS digest FROM issuers WHERE status = 'suspended' ORDER BY digest`;
  const accounts = await tx<{ digest: Uint8Array }[]>`
    SELECT ${digestOf(tx, 'account_id')} AS digest FROM accounts WHERE status = 'suspended' ORDER BY digest`;
  const wallets = await tx<{ key: IdDigest }[]>`
    SELECT wallet_key AS key FROM wallets WHERE status = 'frozen' AND deleted_at_ms IS NULL ORDER BY wallet_key`;
  // Read from the database: memory may lack a key that another replica has just created.
  const keys = signingKeys.sound(await readSigningKeys(tx));
  return {
    sync_version: syncVersion,
    account_id: accountId,
    account_revision: heads.account,
    account_mark: await readMark(tx, accountId, heads.account),
    global_revision: heads.global,
    global_mark: await readMark(tx, globalFeed, heads.global),
    generation: generations.current,
    earlier_generations: [...generations.earlier],
    account_status: must(account?.status, 'the account of an authenticated caller is there'),
    federations: [...federations],
    api_keys: apiKeys,
    passport_standings: standings,
    suspended_issuers: issuers.map(({ digest }) => encodeBase64url(digest) as IdDigest),
    suspended_accounts: accounts.map(({ digest }) => encodeBase64url(digest) as IdDigest),
    frozen_wallets: wallets.map(({ key }) => key),
    signing_keys: keys.filter(({ purpose }) => purpose !== 'log').map(publicHalf),
    public_url: publicUrlOf(baseUrl),
    taken_at_ms: takenAtMs,
  };
}

/** `idDigest` in SQL, so that a million ids need not be fetched to be hashed. */
const digestOf = (tx: Transaction, column: 'passport_id' | 'issuer_id' | 'account_id') =>
  tx`substring(sha256(convert_to(${tx(column)}, 'UTF8')) FOR ${idDigestBytes}::int)`;

async function readStandings(tx: Transaction, nowMs: UnixMillis): Promise<PassportStandingGroup[]> {
  // A passport marked as expired gave up its agent_id and may have been suspended before; a sidecar with a
  // slow clock must not treat it as active.
  const groups = await tx<(Omit<PassportStandingGroup, 'passports'> & { digests: Uint8Array })[]>`
    ${inWallets(tx, nowMs)} UNION ALL
    SELECT false, standing, expired_by_day, string_agg(digest, ''::bytea ORDER BY digest) AS digests FROM (
      SELECT CASE status WHEN 'expired' THEN 'revoked' ELSE status END AS standing,
        ceil(expires_at_ms / ${dayMs}::numeric)::bigint AS expired_by_day, ${digestOf(tx, 'passport_id')} AS digest
      FROM (
        SELECT status, expires_at_ms, passport_id FROM passports
        WHERE status IN ('suspended', 'revoked', 'expired') AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs - limits.standingKeptMs})
        -- Owners are looked up beside passports, by \`ownerName\`.
        UNION ALL SELECT status, NULL, concat_ws(':', 'owner', account_id, mode, owner) FROM owner_standings
        WHERE status = 'suspended'
      ) AS named
      UNION ALL SELECT standing, expired_by_day, digest FROM unnamed_ends
      WHERE expired_by_day IS NULL OR expired_by_day * ${dayMs} > ${nowMs - limits.standingKeptMs}
    ) AS ended GROUP BY 1, 2, 3`;
  return groups.map(({ standing, expired_by_day, digests, in_wallet }) => ({
    standing,
    expired_by_day,
    passports: encodeBase64url(digests),
    ...(in_wallet === true && { in_wallet }),
  }));
}

/**
 * Active passports that came into a wallet after they were issued. Passports are found by the database's
 * collation.
 */
const inWallets = (tx: Transaction, nowMs: UnixMillis) => tx`
  SELECT true AS in_wallet, 'suspended' AS standing, ceil(expires_at_ms / ${dayMs}::numeric)::bigint AS expired_by_day,
    string_agg(${digestOf(tx, 'passport_id')}, ''::bytea ORDER BY ${digestOf(tx, 'passport_id')}) AS digests
  FROM (
    SELECT passport_id COLLATE "default" AS passport_id FROM passport_wallets WHERE wallet_id IS NOT NULL AND NOT is_in_token
  ) AS told JOIN passports USING (passport_id)
  WHERE status = 'active'
    AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs - limits.standingKeptMs})
  GROUP BY 1, 2, 3`;
