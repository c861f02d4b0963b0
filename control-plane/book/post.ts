import { assert } from '../../shared/errors/assert.ts';
import { type ApprovalId, isId, type SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { isMoney, moneyKinds } from '../../shared/quota/counter.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { distinct } from '../storage/distinct.ts';
import { type Entry, entriesOf, type PermitEvent } from './entry.ts';
import { type HeldUnits, sourceOf, type UnitsSource, unitsFrom } from './held-units.ts';
import { postedUnits } from './holder-store.ts';
import { moveUnits } from './ledger.ts';
import { quotaLimits } from './limits.ts';

/** Entries of one PERMIT. */
export interface Posting {
  /** Whose leases `from` names. */
  readonly source: SidecarId | 'control-plane';
  /** Where the PERMIT took units. Each entry is of every one of them. */
  readonly from: readonly UnitsSource[];
  /** An approval paid the money, from the windows that it held. Null: none. */
  readonly approvalId: ApprovalId | null;
  readonly entries: readonly Entry[];
  /** Time of the PERMIT. */
  readonly atMs: UnixMillis;
}

/** Null: no person's approval of this request, but none or a standing one. */
export const approvalOf = (approvalId: string | null): ApprovalId | null =>
  isId('appr', approvalId) ? (approvalId as ApprovalId) : null;

/** The entries of an event. Those of an overrun are of the windows that it was taken from. */
export function postingsOf(
  event: PermitEvent,
  { overrunFrom, ...permit }: Omit<Posting, 'entries'> & { readonly overrunFrom: readonly HeldUnits[] },
): readonly Posting[] {
  const entries = entriesOf(event);
  const isOfOverrun = ({ from, to }: Entry) => from === 'overrun' || to === 'overrun';
  const own = { ...permit, entries: entries.filter((entry) => !isOfOverrun(entry)) };
  const overrun = {
    ...permit,
    from: overrunFrom.map(sourceOf),
    approvalId: null,
    entries: entries.filter(isOfOverrun),
  };
  return [own, overrun].filter((posting) => posting.entries.length > 0);
}

/** A lease, and the sidecar that claims to own it. */
interface NamedLease {
  readonly leaseId: number;
  readonly sidecarId: SidecarId;
}

/** What becomes free in this transaction. */
export class Book {
  readonly #tx: Transaction;
  readonly #free: HeldUnits[] = [];
  #isClosed = false;

  constructor(tx: Transaction) {
    this.#tx = tx;
  }

  /**
   * Takes what goes free by these entries out of the places that they name. Of a lease at most what is there:
   * of what was used no more than its PERMITs on record took, else of what none took, so a lying sidecar
   * frees no units of others. A lease of another sidecar is passed over; one that is gone has left what was
   * used, and the rest went back with it or stays counted.
   *
   * Locks leases in the order of ids, only a sidecar's own, then former leases likewise: before approvals and
   * chains. `alsoLock`: leases that the caller takes from afterwards.
   */
  async draw(postings: readonly Posting[], alsoLock: readonly NamedLease[] = []): Promise<void> {
    const back = postings.flatMap(({ entries, ...of }) =>
      entries.filter(({ to }) => to === 'free').map((entry) => ({ ...of, entry })),
    );
    const draws = addUp(back);
    this.free(await drawLeases(this.#tx, draws, alsoLock));
    this.free(await drawFormerLeases(this.#tx, draws));
    for (const { from, entry } of back)
      for (const source of from) if (typeof source !== 'number') this.free([ofWindow(source, entry)]);
    this.free(await heldByApprovals(this.#tx, back));
  }

  /** Units that are in no place any more, as of an approval that has ended. */
  free(units: readonly HeldUnits[]): void {
    assert(!this.#isClosed, 'nothing is freed once windows are locked');
    this.#free.push(...units.filter((each) => each.units > 0));
  }

  async close(nowMs: UnixMillis): Promise<void> {
    this.#isClosed = true;
    await freeUnits(this.#tx, this.#free, nowMs);
  }
}

/**
 * Does `work` and then gives back to the ledger what became free in it. That locks quota windows in the order
 * of their key, so nothing of the transaction comes after it that locks other rows than those below them
 * (storage/locks.ts). The ledger cannot tell a repeat from a second return: what ends the place of units, and
 * this, are one transaction.
 */
export async function keepBook<Result>(
  tx: Transaction,
  nowMs: UnixMillis,
  work: (book: Book) => Promise<Result>,
): Promise<Result> {
  const book = new Book(tx);
  const result = await work(book);
  await book.close(nowMs);
  return result;
}

/**
 * Frees units that are in no place any more. An ended window has nothing left to free. When in doubt, keep
 * the units: they are free again when their window ends.
 */
export async function freeUnits(
  tx: Database | Transaction,
  freed: readonly HeldUnits[],
  nowMs: UnixMillis,
): Promise<void> {
  // Several places may share a window, but the ledger accepts each window once.
  const byWindow = new Map<string, HeldUnits>();
  for (const held of freed) {
    const name = windowKey(held.counter, { name: held.window, startsAtMs: held.startsAtMs });
    byWindow.set(name, { ...held, units: held.units + (byWindow.get(name)?.units ?? 0) });
  }
  const inOrder = [...byWindow.values()].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  const moves = inOrder.map(({ counter, window, startsAtMs, units }) => ({
    counter,
    window: windowAt(window, startsAtMs),
    unitsBack: units,
    ask: null,
  }));
  for (let from = 0; from < moves.length; from += limits.quotaWindowsPerCallMax)
    await moveUnits(tx, moves.slice(from, from + limits.quotaWindowsPerCallMax), nowMs);
}

const nameOf = ({ counter, window, startsAtMs }: HeldUnits): string =>
  `${counter}\0${window}\0${String(startsAtMs).padStart(16, '0')}`;

const ofWindow = (source: Exclude<UnitsSource, number>, { money, requests }: Entry): HeldUnits =>
  unitsFrom(source, isMoney(source[0]) ? money : requests);

type Back = Omit<Posting, 'entries'> & { readonly entry: Entry };

/** What comes back of one lease, of money or of requests; its counter says which of them it is. */
interface LeaseDraw extends NamedLease {
  unusedMoney: number;
  unusedRequests: number;
  usedMoney: number;
  usedRequests: number;
}

function addUp(back: readonly Back[]): readonly LeaseDraw[] {
  const draws = new Map<string, LeaseDraw>();
  for (const { source, from, entry } of back) {
    if (source === 'control-plane') continue;
    for (const leaseId of from) {
      if (typeof leaseId !== 'number') continue;
      const name = `${leaseId} ${source}`;
      const none = { unusedMoney: 0, unusedRequests: 0, usedMoney: 0, usedRequests: 0 };
      const draw = draws.get(name) ?? { leaseId, sidecarId: source, ...none };
      const isUnused = entry.from === 'lease';
      draw[isUnused ? 'unusedMoney' : 'usedMoney'] += entry.money;
      draw[isUnused ? 'unusedRequests' : 'usedRequests'] += entry.requests;
      draws.set(name, draw);
    }
  }
  return [...draws.values()];
}

const isOfMoney = (tx: Transaction) => tx`split_part(counter, ':', 1) = ANY(${[...moneyKinds]}::text[])`;

async function drawLeases(
  tx: Transaction,
  draws: readonly LeaseDraw[],
  alsoLock: readonly NamedLease[],
): Promise<readonly HeldUnits[]> {
  if (draws.length === 0) return [];
  const named: readonly NamedLease[] = [...draws, ...alsoLock];
  await tx`
    SELECT FROM quota_leases l JOIN lease_holders h USING (holder)
    WHERE l.lease_id = ANY(${named.map(({ leaseId }) => leaseId)}::bigint[])
      AND (l.lease_id, h.sidecar_id) IN (
        SELECT * FROM unnest(
          ${named.map(({ leaseId }) => leaseId)}::bigint[],
          ${named.map(({ sidecarId }) => sidecarId)}::text[]))
    ORDER BY l.lease_id FOR UPDATE OF l`;
  return tx<HeldUnits[]>`
    WITH asked AS (
      SELECT l.lease_id, l.counter, l.window_name, l.starts_at_ms,
        greatest(l.units - ${postedUnits(tx)}, 0) AS unused,
        greatest(l.used + least(l.units, ${postedUnits(tx)}), 0) AS used,
        CASE WHEN is_money THEN unused_money ELSE unused_requests END AS unused_taken,
        CASE WHEN is_money THEN used_money ELSE used_requests END AS used_taken
      FROM unnest(
        ${draws.map(({ leaseId }) => leaseId)}::bigint[],
        ${draws.map(({ sidecarId }) => sidecarId)}::text[],
        ${draws.map(({ unusedRequests }) => unusedRequests)}::bigint[],
        ${draws.map(({ unusedMoney }) => unusedMoney)}::bigint[],
        ${draws.map(({ usedRequests }) => usedRequests)}::bigint[],
        ${draws.map(({ usedMoney }) => usedMoney)}::bigint[]
      ) AS a (lease_id, sidecar_id, unused_requests, unused_money, used_requests, used_money)
      JOIN quota_leases l USING (lease_id)
      JOIN lease_holders h ON h.holder = l.holder AND h.sidecar_id = a.sidecar_id,
      LATERAL (SELECT ${isOfMoney(tx)} AS is_money) AS kind
    ), freed AS (
      SELECT *, least(unused_taken, unused) AS of_unused, least(used_taken, used) AS of_used FROM asked
    ), written AS (
      UPDATE quota_leases l SET units = l.units - of_unused, used = l.used - of_used FROM freed f
      WHERE l.lease_id = f.lease_id
    )
    SELECT counter, window_name AS window, starts_at_ms AS "startsAtMs", sum(of_unused + of_used)::bigint AS units
    FROM freed GROUP BY counter, window_name, starts_at_ms`;
}

/**
 * A lease that is gone by now is here: a holder that goes waits for those who have locked its leases. Settled
 * PERMITs and those on record have named leases of their own sidecar.
 */
async function drawFormerLeases(tx: Transaction, draws: readonly LeaseDraw[]): Promise<readonly HeldUnits[]> {
  const used = draws.filter(({ usedMoney, usedRequests }) => usedMoney + usedRequests > 0);
  if (used.length === 0) return [];
  const ids = distinct(used.map(({ leaseId }) => leaseId));
  await tx`
    SELECT FROM former_leases WHERE lease_id = ANY(${ids}::bigint[]) ORDER BY lease_id FOR UPDATE`;
  return tx<HeldUnits[]>`
    WITH asked AS (
      SELECT lease_id, sum(requests) AS requests, sum(money) AS money FROM unnest(
        ${used.map(({ leaseId }) => leaseId)}::bigint[],
        ${used.map(({ usedRequests }) => usedRequests)}::bigint[],
        ${used.map(({ usedMoney }) => usedMoney)}::bigint[]
      ) AS a (lease_id, requests, money) GROUP BY lease_id
    ), freed AS (
      SELECT f.lease_id, f.counter, f.window_name, f.starts_at_ms,
        least(f.used, CASE WHEN is_money THEN money ELSE requests END)::bigint AS units
      FROM asked JOIN former_leases f USING (lease_id), LATERAL (SELECT ${isOfMoney(tx)} AS is_money) AS kind
    ), written AS (
      UPDATE former_leases f SET used = f.used - freed.units FROM freed WHERE f.lease_id = freed.lease_id
    )
    SELECT counter, window_name AS window, starts_at_ms AS "startsAtMs", units FROM freed`;
}

/** Removes former leases of windows that have ended. Skips locked rows. */
export async function trimFormerLeases(tx: Transaction): Promise<void> {
  await tx`
    DELETE FROM former_leases WHERE lease_id = ANY (ARRAY(
      SELECT lease_id FROM former_leases
      WHERE ends_at_ms < ${databaseNowMs(tx)} - ${quotaLimits.quotaWindowKeptMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}

/** The money of a PERMIT with an approval was held by that. */
async function heldByApprovals(tx: Transaction, back: readonly Back[]): Promise<readonly HeldUnits[]> {
  const paid = back.filter(({ entry, approvalId }) => approvalId !== null && entry.money > 0);
  if (paid.length === 0) return [];
  const rows = await tx<{ id: ApprovalId; holds: readonly HeldUnits[] }[]>`
    SELECT approval_id AS id, holds FROM approvals
    WHERE approval_id = ANY(${distinct(paid.map(({ approvalId }) => approvalId))}::text[])`;
  const holds = new Map(rows.map((row) => [row.id, row.holds]));
  return paid.flatMap(({ approvalId, entry }) =>
    ((approvalId && holds.get(approvalId)) || []).map((held) => ({ ...held, units: entry.money })),
  );
}
