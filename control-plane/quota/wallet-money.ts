import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import { type ApprovalId, isId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { distinct } from '../storage/distinct.ts';
import type { MoneySource } from './return-money.ts';
import { addToWallets, type WalletSum } from './wallet-spend-store.ts';

/** Money of one PERMIT that wallets count from now on, or no more. */
export interface WalletMoney {
  /** Where the PERMIT took it. */
  readonly from: readonly MoneySource[];
  /** Its approval took money, too; null: it had none. */
  readonly approvalId: ApprovalId | null;
  /** Micro-USD more, or less, that count. */
  readonly spent: number;
  /** Micro-USD more, or less, that an open hold has. Part of what counts. */
  readonly held: number;
  /** Time of the record that says so. */
  readonly atMs: UnixMillis;
}

/** A record that is being appended. */
export interface MoneyRecord {
  readonly attestation: Pick<
    AttestationRecord,
    'decision' | 'resolution' | 'test' | 'amountMicroUsd' | 'holdExpiresAtMs' | 'approvalId' | 'timestampMs'
  >;
  readonly moneyFrom: readonly MoneySource[];
  readonly isInWallet: boolean;
  /** Of a record that says what became of a PERMIT. */
  readonly walletMoney: readonly WalletMoney[];
}

/** What records change in the sums of wallets. */
export const moneyOfRecords = (records: readonly MoneyRecord[]): readonly WalletMoney[] =>
  records.flatMap(({ attestation, moneyFrom, isInWallet, walletMoney }) => {
    const { decision, resolution, test, amountMicroUsd, holdExpiresAtMs, approvalId, timestampMs } =
      attestation;
    const isNew = decision === 'PERMIT' && resolution === null && !test;
    if (!isNew || amountMicroUsd === null || !isInWallet) return walletMoney;
    return {
      from: moneyFrom,
      approvalId: approvalOf(approvalId),
      spent: amountMicroUsd,
      held: holdExpiresAtMs === null ? 0 : amountMicroUsd,
      atMs: timestampMs,
    };
  });

export const approvalOf = (approvalId: string | null): ApprovalId | null =>
  isId('appr', approvalId) ? (approvalId as ApprovalId) : null;

/**
 * Follows the money of PERMITs in the windows of the wallets that they took it from (contract §6): by what
 * the ledger says of their leases, so a wallet that was moved since then keeps what was taken from it. Sends
 * `spend_limit.approaching` where a sum reaches `alert_at` of its limit, once per window.
 *
 * One look-up if a wallet is concerned, else nothing. The sums are hot rows, locked in the order of their key
 * until the transaction ends; only quota windows may be locked after them. Call it once per transaction.
 */
export async function followWalletMoney(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  money: readonly WalletMoney[],
): Promise<void> {
  const moved = money.filter(({ spent, held }) => spent !== 0 || held !== 0);
  if (moved.length === 0) return;
  const windows = await findSources(tx, moved);
  const sums = new Map<string, WalletSum>();
  for (const each of moved) {
    const names = each.from.map(nameOf);
    const ofApproval = each.approvalId === null ? [] : [each.approvalId];
    const drawn = new Set([...names, ...ofApproval].flatMap((name) => windows.get(name) ?? []));
    for (const window of drawn) addUp(sums, window, each);
  }
  await addToWallets(tx, deps, [...sums.values()]);
}

interface SourceWindow {
  readonly name: string;
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
}

const nameOf = (source: MoneySource): string =>
  typeof source === 'number' ? String(source) : source.join(' ');

const isOfWallet = (counter: string): boolean => counter.startsWith('wallet_spend:');

/** Windows of wallets by the names of sources and approvals. A lease that is gone has left what it was. */
async function findSources(
  tx: Transaction,
  money: readonly WalletMoney[],
): Promise<ReadonlyMap<string, readonly SourceWindow[]>> {
  const found = new Map<string, SourceWindow[]>();
  const keep = (each: SourceWindow) => found.set(each.name, [...(found.get(each.name) ?? []), each]);
  const sources = money.flatMap(({ from }) => from);
  for (const source of sources) {
    if (typeof source === 'number' || found.has(nameOf(source))) continue;
    const [counter, window, startsAtMs] = source;
    if (isOfWallet(counter)) keep({ name: nameOf(source), counter, window, startsAtMs });
  }
  const leases = [...new Set(sources.filter((source) => typeof source === 'number'))];
  const approvals = distinct(money.map(({ approvalId }) => approvalId));
  if (leases.length + approvals.length === 0) return found;
  const rows = await tx<SourceWindow[]>`
    SELECT lease_id::text AS name, counter, window_name AS window, starts_at_ms AS "startsAtMs" FROM quota_leases
    WHERE lease_id = ANY(${leases}::bigint[]) AND counter LIKE 'wallet!_spend:%' ESCAPE '!'
    UNION ALL
    SELECT lease_id::text, counter, window_name, starts_at_ms FROM former_leases
    WHERE lease_id = ANY(${leases}::bigint[]) AND counter LIKE 'wallet!_spend:%' ESCAPE '!'
    UNION ALL
    SELECT approval_id, h->>'counter', h->>'window', (h->>'startsAtMs')::bigint
    FROM approvals, jsonb_array_elements(holds) AS h
    WHERE approval_id = ANY(${approvals}::text[]) AND h->>'counter' LIKE 'wallet!_spend:%' ESCAPE '!'`;
  for (const row of rows) keep(row);
  return found;
}

function addUp(sums: Map<string, WalletSum>, of: SourceWindow, { spent, held, atMs }: WalletMoney): void {
  const walletKey = must(of.counter.split(':')[1], 'a counter names its wallet') as IdDigest;
  const window = windowAt(of.window, of.startsAtMs);
  const name = `${walletKey} ${window.name} ${window.startsAtMs}`;
  const sum = sums.get(name) ?? { walletKey, window, spent: 0, held: 0, latestMs: atMs };
  sums.set(name, {
    ...sum,
    spent: sum.spent + spent,
    held: sum.held + held,
    latestMs: Math.max(sum.latestMs, atMs) as UnixMillis,
  });
}
