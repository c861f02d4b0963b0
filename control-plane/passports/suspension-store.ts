import { ownerName } from '../../shared/crypto/federated-id.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Suspension } from '../../shared/model/passport.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import type { Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { type PublishedStanding, standingChange } from './publish-standing.ts';

/** Whose suspension begins or ends: of an owner with the passports that have him now, or of one passport. */
export interface SuspensionMove {
  readonly of: { readonly owner: string } | { readonly passportId: PassportId };
  readonly to: 'suspended' | 'active';
  readonly cause: Suspension['cause'];
  readonly event: string | null;
}

/** What a move came to. */
interface Moved {
  /** False: it was so before. */
  readonly isNew: boolean;
  /** Passports that are stopped by one cause more, or that are active again. */
  readonly hit: readonly PassportId[];
}

/** An owner of passports, or none. */
export type Owned = Owner & { readonly owner: string | null };

/**
 * Holds these owners until the transaction ends, in the order of their names and before any passport: as they
 * are (`shared`), or to change them. So nobody is suspended while a passport comes to have him.
 */
export async function lockOwners(
  tx: Transaction,
  owned: readonly Owned[],
  lock: 'shared' | 'exclusive',
): Promise<void> {
  const named = owned.filter(({ owner }) => owner !== null);
  if (named.length === 0) return;
  const owners = () => tx`
    SELECT * FROM unnest(${named.map(({ accountId }) => accountId)}::text[], ${named.map(({ mode }) => mode)}::text[],
      ${named.map(({ owner }) => owner)}::text[]) AS named (account_id, mode, owner)
    ORDER BY account_id COLLATE "C", mode, owner COLLATE "C"`;
  await tx`
    INSERT INTO owner_standings (account_id, mode, owner, status)
    SELECT account_id, mode, owner, 'active' FROM (${owners()}) AS named ON CONFLICT DO NOTHING`;
  await tx`
    SELECT FROM owner_standings o WHERE (account_id, mode, owner) IN (SELECT account_id, mode, owner FROM (${owners()}) AS named)
    ORDER BY account_id COLLATE "C", mode, owner ${lock === 'shared' ? tx`FOR SHARE OF o` : tx`FOR UPDATE OF o`}`;
}

/**
 * Begins and ends suspensions, in this order, and publishes what is different then. What a suspension of an
 * owner stops is stopped itself, whatever its tokens say later. `lifted`: its revocation ends, too.
 */
export async function moveSuspensions(
  tx: Transaction,
  change: WriteChange,
  account: Owner,
  {
    moves,
    nowMs,
    lifted = null,
  }: {
    readonly moves: readonly SuspensionMove[];
    readonly nowMs: UnixMillis;
    readonly lifted?: PassportId | null;
  },
): Promise<readonly Moved[]> {
  const owners = moves.flatMap(({ of }) => ('owner' in of ? [of.owner] : []));
  await lockOwners(
    tx,
    owners.map((owner) => ({ ...account, owner })),
    'exclusive',
  );
  const ids = moves.flatMap(({ of }) => ('owner' in of ? [] : [of.passportId]));
  await lockPassports(tx, account, { ids, owners });
  const touched: { readonly to: SuspensionMove['to']; readonly rows: readonly Touched[] }[] = [];
  for (const move of moves) {
    const rows = await (move.to === 'suspended' ? begin : end)(tx, account, move, nowMs);
    touched.push({ to: move.to, rows });
  }
  const touchedIds = touched.flatMap(({ rows }) => idsIn(rows));
  const aligned = await alignPassports(tx, touchedIds, lifted);
  await publish(change, await alignOwners(tx, account, owners), aligned);
  const activeAgain = new Set(aligned.flatMap((each) => (each.standing === 'active' ? each.passportId : [])));
  return touched.map(({ to, rows }) => ({
    isNew: rows.length > 0,
    hit: idsIn(rows).filter((id) => to === 'suspended' || activeAgain.has(id)),
  }));
}

/** Those of these passports whose owner is suspended are, too, from now on. Their owners are held. */
export async function suspendWithOwners(
  tx: Transaction,
  change: WriteChange,
  ids: readonly PassportId[],
): Promise<readonly PassportId[]> {
  const bound = await tx<{ passportId: PassportId }[]>`
    INSERT INTO suspensions (account_id, mode, owner, passport_id, cause, since_ms, event)
    SELECT p.account_id, p.mode, p.owner, p.passport_id, cause, since_ms, event
    FROM passports p JOIN suspensions s
      ON s.account_id = p.account_id AND s.mode = p.mode AND s.owner = p.owner AND s.passport_id = ''
    WHERE p.passport_id = ANY(${[...ids]}::text[]) ON CONFLICT DO NOTHING RETURNING passport_id AS "passportId"`;
  const boundIds = bound.map(({ passportId }) => passportId);
  await publish(change, [], await alignPassports(tx, boundIds, null));
  return boundIds;
}

/** One that has expired for so long is forgotten by all sidecars. */
const isLive = (tx: Transaction, nowMs: UnixMillis) =>
  tx`(expires_at_ms IS NULL OR expires_at_ms > ${nowMs - limits.standingKeptMs})`;

/** The account's own suspension of a passport that was just made, of which sidecars know. */
export async function keepSuspended(
  tx: Transaction,
  account: Owner,
  { passportId, nowMs }: { readonly passportId: PassportId; readonly nowMs: UnixMillis },
): Promise<void> {
  await begin(tx, account, { of: { passportId }, to: 'suspended', cause: 'account', event: null }, nowMs);
  await alignPassports(tx, [passportId], null);
}

/**
 * Those of these owners and passports, in the order of their ids. A statement of its own: the next one sees
 * what whoever held them has written.
 */
export const lockPassports = (
  tx: Transaction,
  { accountId, mode }: Owner,
  { ids, owners }: { readonly ids: readonly PassportId[]; readonly owners: readonly string[] },
) => tx`
  SELECT FROM passports p WHERE passport_id IN (
    SELECT unnest(${[...ids]}::text[])
    UNION SELECT passport_id FROM passports
      WHERE account_id = ${accountId} AND mode = ${mode} AND owner = ANY(${[...owners]}::text[])
    UNION SELECT passport_id FROM suspensions
      WHERE account_id = ${accountId} AND mode = ${mode} AND owner = ANY(${[...owners]}::text[]))
  ORDER BY passport_id COLLATE "C" FOR NO KEY UPDATE OF p`;

interface Touched {
  /** Empty: the owner. */
  readonly passportId: PassportId | '';
}

const idsIn = (rows: readonly Touched[]): readonly PassportId[] =>
  rows.flatMap(({ passportId }) => (passportId === '' ? [] : [passportId]));

const keyOf = ({ of }: SuspensionMove) =>
  'owner' in of ? { owner: of.owner, passportId: '' } : { owner: '', passportId: of.passportId };

function begin(tx: Transaction, { accountId, mode }: Owner, move: SuspensionMove, nowMs: UnixMillis) {
  const { owner, passportId } = keyOf(move);
  return tx<Touched[]>`
    INSERT INTO suspensions (account_id, mode, owner, passport_id, cause, since_ms, event)
    SELECT ${accountId}, ${mode}, ${owner}, passport_id, ${move.cause}, ${nowMs}, ${move.event} FROM (
      SELECT ${passportId}::text AS passport_id
      UNION ALL SELECT passport_id FROM passports
        WHERE account_id = ${accountId} AND mode = ${mode} AND owner = nullif(${owner}, '') AND ${isLive(tx, nowMs)}
    ) AS stopped ON CONFLICT DO NOTHING RETURNING passport_id AS "passportId"`;
}

function end(tx: Transaction, { accountId, mode }: Owner, move: SuspensionMove) {
  const { owner, passportId } = keyOf(move);
  return tx<Touched[]>`
    DELETE FROM suspensions
    WHERE account_id = ${accountId} AND mode = ${mode} AND owner = ${owner} AND cause = ${move.cause}
      AND (owner <> '' OR passport_id = ${passportId})
    RETURNING passport_id AS "passportId"`;
}

const alignOwners = (tx: Transaction, { accountId, mode }: Owner, owners: readonly string[]) =>
  owners.length === 0
    ? []
    : tx<(Owner & { readonly owner: string; readonly status: 'active' | 'suspended' })[]>`
        UPDATE owner_standings o SET status = CASE o.status WHEN 'active' THEN 'suspended' ELSE 'active' END
        WHERE account_id = ${accountId} AND mode = ${mode} AND owner = ANY(${[...owners]}::text[])
          AND (status = 'suspended') <> EXISTS (
            SELECT FROM suspensions s WHERE s.account_id = ${accountId} AND s.mode = ${mode} AND s.owner = o.owner COLLATE "default" AND s.passport_id = '')
        RETURNING account_id AS "accountId", mode, owner, status`;

/** A revoked passport stays so, unless that is lifted, and one whose agent_id is free has expired. */
const alignPassports = (tx: Transaction, ids: readonly PassportId[], lifted: PassportId | null) =>
  ids.length === 0 && lifted === null
    ? []
    : tx<PublishedStanding[]>`
        UPDATE passports p SET status = CASE WHEN stands THEN 'suspended' ELSE 'active' END,
          revoked_at_ms = NULL, revocation_reason = NULL, revoked_by = NULL
        FROM (
          SELECT id, EXISTS (SELECT FROM suspensions WHERE passport_id = id) AS stands
          FROM (SELECT DISTINCT unnest(${[...ids, ...(lifted === null ? [] : [lifted])]}::text[]) AS id) AS named
        ) AS known
        WHERE p.passport_id = id
          AND (p.status = CASE WHEN stands THEN 'active' ELSE 'suspended' END OR p.passport_id = ${lifted})
        RETURNING passport_id AS "passportId", expires_at_ms AS "expiresAtMs", status AS standing, EXISTS (
          SELECT FROM passport_wallets w WHERE w.passport_id = p.passport_id AND wallet_id IS NOT NULL AND NOT is_in_token
        ) AS "isInWallet"`;

async function publish(
  change: WriteChange,
  owners: readonly (Owner & { readonly owner: string; readonly status: 'active' | 'suspended' })[],
  passports: readonly PublishedStanding[],
): Promise<void> {
  const changes = [
    // A sidecar looks an owner up as it does a passport.
    ...owners.map(({ owner, status, ...account }) => ({
      kind: 'passport.standing' as const,
      body: { passport: idDigest(ownerName(account, owner)), standing: status, expired_by_day: null },
    })),
    ...passports.map(standingChange),
  ];
  if (changes.length > 0) await change(globalFeed, ...changes);
}
