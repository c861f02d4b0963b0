import type { Database } from '../../control-plane/base/database.ts';
import { quotaLimits } from '../../control-plane/book/limits.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import type { GateId, PassportId, StandingApprovalId } from '../../shared/model/ids.ts';
import { type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import type { Answers, Permitted } from './answers.ts';
import { type AllowedIn, type Cap, type Given, grouped } from './caps.ts';
import type { HeldState } from './held-money.ts';

/** What the database has of a race. */
export interface Records {
  /** Each PERMIT that stands, and each sum that an approval holds or held until it was used. */
  readonly given: readonly Given[];
  /** PERMITs that no later record of their chain voids, with what they count by now. */
  readonly permits: ReadonlyMap<string, RecordedPermit>;
  /** Ids of PERMITs that a later record of their chain voids (contract §5): their units went back. */
  readonly voided: ReadonlySet<string>;
  /** What the ledger has given out of a window, or its limit where that is less. */
  readonly leasedIn: AllowedIn;
  readonly ledger: readonly LedgerWindow[];
  readonly held: ReadonlyMap<string, HeldState>;
}

export interface RecordedPermit {
  readonly attestationId: string;
  readonly gateId: string;
  readonly passportId: string;
  readonly walletId: string | null;
  /** What it took when it was decided. */
  readonly tookMicroUsd: number | null;
  /** What it counts by its last record (contract §19). */
  readonly moneyMicroUsd: number | null;
  readonly isHeld: boolean;
  /** What became of it, in the order of its chain. */
  readonly changes: readonly PermitRecord[];
  readonly requestHash: string;
  readonly timestampMs: number;
  /** The sidecar that decided it, or `control-plane`. */
  readonly source: string;
}

export interface PermitRecord {
  readonly refersTo: string;
  readonly resolution: string;
  readonly moneyMicroUsd: number;
  readonly timestampMs: number;
}

interface LedgerWindow {
  readonly counter: string;
  readonly name: string;
  readonly startsAtMs: number;
  readonly endsAtMs: number;
  readonly leased: number;
}

interface Hold {
  readonly counter: string;
  readonly startsAtMs: number;
  readonly units: number;
}

/**
 * From one snapshot, because somebody may still be settling. `looseGateIds`: of these gates, whose sidecars
 * are not ours.
 */
export async function readRecords(
  sql: Database,
  gateIds: readonly string[],
  looseGateIds: readonly string[] = [],
): Promise<Records> {
  return sql.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', async (tx) => {
    const recorded = await tx<Omit<RecordedPermit, 'moneyMicroUsd' | 'isHeld' | 'changes'>[]>`
      SELECT attestation_id AS "attestationId", gate_id AS "gateId", passport_id AS "passportId",
        wallet_id AS "walletId", amount_micro_usd AS "tookMicroUsd", request_hash AS "requestHash", timestamp_ms AS "timestampMs",
        source
      FROM attestations
      WHERE decision = 'PERMIT' AND resolution IS NULL AND NOT test AND gate_id = ANY(${[...gateIds]}::text[])`;
    const changes = await tx<PermitRecord[]>`
      SELECT refers_to AS "refersTo", resolution, amount_micro_usd AS "moneyMicroUsd", timestamp_ms AS "timestampMs"
      FROM attestations
      WHERE decision = 'PERMIT' AND resolution <> 'voided' AND gate_id = ANY(${[...gateIds]}::text[])
      ORDER BY position`;
    const voiding = await tx<{ refersTo: string }[]>`
      SELECT refers_to AS "refersTo" FROM attestations
      WHERE resolution = 'voided' AND gate_id = ANY(${[...gateIds]}::text[])`;
    const approvals = await tx<
      { gateId: string; passportId: string; attestationId: string | null; amount: number; holds: Hold[] }[]
    >`
      SELECT gate_id AS "gateId", passport_id AS "passportId", attestation_id AS "attestationId",
        coalesce(amount_micro_usd, 0) AS amount, holds
      FROM approvals WHERE status IN ('pending', 'approved', 'used') AND gate_id = ANY(${[...gateIds]}::text[])`;
    const ledger = await tx<LedgerWindow[]>`
      SELECT counter, window_name AS name, starts_at_ms AS "startsAtMs", ends_at_ms AS "endsAtMs", leased FROM quota_windows`;

    const voided = new Set(voiding.map(({ refersTo }) => refersTo));
    const changesOf = grouped(changes, ({ refersTo }) => refersTo);
    const heldStates = await tx<HeldState[]>`
      SELECT attestation_id AS "attestationId", hold_status AS status, outcome
      FROM permit_outcomes WHERE hold_status IS NOT NULL AND gate_id = ANY(${[...gateIds]}::text[])`;
    const held = new Map(heldStates.map((state) => [state.attestationId, state]));
    const permits = recorded
      .filter(({ attestationId }) => !voided.has(attestationId))
      .map((permit): RecordedPermit => {
        const own = changesOf.get(permit.attestationId) ?? [];
        const moneyMicroUsd = own.at(-1)?.moneyMicroUsd ?? permit.tookMicroUsd;
        return { ...permit, isHeld: held.has(permit.attestationId), changes: own, moneyMicroUsd };
      });
    const paidByHold = new Set(approvals.map(({ attestationId }) => attestationId));
    // A record is of a moment in the windows that its PERMIT took from (contract §6). A liar may name a
    // lease of the window before: its units are given once, and its clock is believed within that leeway.
    const slackOf = (gateId: string): number =>
      looseGateIds.includes(gateId) ? quotaLimits.leaseClockLeewayMs : 0;
    const ofPermits = permits.map(
      ({ attestationId, gateId, passportId, moneyMicroUsd, timestampMs }): Given => ({
        gateId,
        passportId,
        requests: 1,
        moneyMicroUsd: paidByHold.has(attestationId) ? 0 : (moneyMicroUsd ?? 0),
        earliestMs: timestampMs - slackOf(gateId),
        latestMs: timestampMs + slackOf(gateId),
      }),
    );
    // The money was taken in the window in which the approval was asked for, in all windows of its moment.
    const ofApprovals = approvals.flatMap(({ gateId, passportId, amount, holds }): Given[] => {
      const [hold] = holds;
      if (hold === undefined) return [];
      const atMs = holds.reduce((latest, { startsAtMs }) => Math.max(latest, startsAtMs), 0);
      return [{ gateId, passportId, requests: 0, moneyMicroUsd: amount, earliestMs: atMs, latestMs: atMs }];
    });
    const leased = new Map(ledger.map((row) => [`${row.counter} ${row.name} ${row.startsAtMs}`, row.leased]));
    return {
      given: [...ofPermits, ...ofApprovals],
      permits: new Map(permits.map((permit) => [permit.attestationId, permit])),
      voided,
      leasedIn: (cap, startsAtMs) =>
        Math.min(cap.limit, leased.get(`${counterOf(cap)} ${cap.window} ${startsAtMs}`) ?? 0),
      ledger,
      held,
    };
  });
}

/** As the ledger names it. */
export function counterOf({
  kind,
  gateId,
  passportId,
  standingApprovalId: standingId,
  wallet,
}: Cap): CounterKey {
  if (kind === 'wallet_rate' || kind === 'wallet_spend')
    return must(wallet, 'a cap of a wallet names it').counter;
  if (kind === 'standing_approval')
    return counterKey({
      kind,
      gateId: gateId as GateId,
      standingApprovalId: standingId as StandingApprovalId,
    });
  // Ids come from the API as text.
  return kind === 'gate_rate' || kind === 'gate_spend'
    ? counterKey({ kind, gateId: gateId as GateId, passportId: passportId as PassportId | null })
    : counterKey({ kind, passportId: passportId as PassportId });
}

/** Sentences about records that do not fit what clients were told, or one another. Empty: all is well. */
export function misfits({ permits, voided }: Records, answers: Answers): string[] {
  const wrong: string[] = [];
  for (const { attestationId, gateId, passportId, moneyMicroUsd, asked } of answers.permits.values()) {
    const record = permits.get(attestationId);
    if (voided.has(attestationId)) wrong.push(`${attestationId} was answered and is voided`);
    else if (record === undefined) wrong.push(`${attestationId} was answered and is not on record`);
    else if (record.gateId !== gateId || record.passportId !== passportId)
      wrong.push(`${attestationId} is on record for somebody else`);
    else if (record.walletId !== (asked.passport.walletId ?? null))
      wrong.push(`${attestationId} names another wallet than that of its passport`);
    else if ((record.tookMicroUsd ?? 0) !== moneyMicroUsd)
      wrong.push(`${attestationId} is on record with another sum than ${JSON.stringify(asked.body)}`);
    else if (record.requestHash !== contentHash(asked.sameAs))
      wrong.push(`${attestationId} is on record with another request than ${JSON.stringify(asked.body)}`);
  }
  const byRequest = new Map<string, string>();
  for (const { attestationId, gateId, passportId, requestHash } of permits.values()) {
    const request = `${gateId} ${passportId} ${requestHash}`;
    const other = byRequest.get(request);
    if (other !== undefined) wrong.push(`${attestationId} and ${other} are PERMITs of one request`);
    byRequest.set(request, attestationId);
  }
  // Whoever was refused everywhere, with a BLOCK or an error, has no PERMIT that stands (contract §5).
  for (const { asked, unanswered, isPermitted, story } of answers.requests.values()) {
    if (unanswered > 0 || isPermitted) continue;
    const permit = byRequest.get(`${asked.lane.gateId} ${asked.passport.id} ${contentHash(asked.sameAs)}`);
    if (permit !== undefined)
      wrong.push(
        `${permit} stands, and everybody who asked was refused: ${JSON.stringify(asked.body)}: ${story.join('; ')}`,
      );
  }
  return wrong;
}

/** What clients were told, with the money that each PERMIT counts by now. */
export const asSettled = (told: readonly Permitted[], { permits }: Records): readonly Given[] =>
  told.map((each) => {
    const record = permits.get(each.attestationId);
    return record?.isHeld === true ? { ...each, moneyMicroUsd: record.moneyMicroUsd ?? 0 } : each;
  });
