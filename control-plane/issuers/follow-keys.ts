import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { federationCarrier } from '../../shared/crypto/federated-id.ts';
import type { ReadKeys } from '../../shared/crypto/foreign-key.ts';
import { type FederatedIssuer, keyFetchMsMin } from '../../shared/model/federation.ts';
import type { AccountId, IssuerId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { renderFederatedIssuer, withoutAddress } from '../../shared/wire/api/federation.ts';
import type { Transaction } from '../base/database.ts';
import { historyOf } from '../history/history.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { changeTransaction, type WriteChange } from '../sync/change-transaction.ts';
import {
  accountsNaming,
  dueFederations,
  findFederation,
  noteKeyFault,
  type StoredFederation,
  takeTurn,
  updateFederation,
} from './federation-store.ts';
import { fetchKeys, KeysUnavailable, type Outbound } from './fetch-keys.ts';
import { lockIssuer } from './issuer-store.ts';
import { issuersLimits } from './limits.ts';

export interface KeyDeps extends SigningDeps {
  readonly outbound: Outbound;
}

/**
 * Tells what an issuer of others is now: to the sidecars of its account, and of the accounts whose gates name
 * it. The issuer's row is locked, so none of them begins to name it meanwhile.
 */
export async function putFederation(
  tx: Transaction,
  change: WriteChange,
  issuer: TellableIssuer,
): Promise<void> {
  const accounts = [issuer.accountId, ...(await accountsNaming(tx, issuer))];
  // As heads of feeds are locked.
  for (const accountId of accounts.sort()) await tellFederation(change, accountId, issuer);
}

type TellableIssuer = FederatedIssuer & { readonly status: IssuerStatus };

/** Tells the sidecars of one account. The issuer's row is locked. */
export async function tellFederation(
  change: WriteChange,
  accountId: AccountId,
  issuer: TellableIssuer,
): Promise<void> {
  const told = renderFederatedIssuer(issuer, issuer.status === 'active');
  await change(accountId, {
    kind: 'gate.delete',
    body: {
      gate_id: federationCarrier(issuer.issuerId),
      federation: accountId === issuer.accountId ? told : withoutAddress(told),
    },
  });
}

/**
 * Reads the keys of this issuer now, unless an unknown key had them read within `keyFetchMsMin`, or they
 * could not be read within it: an unknown `kid` causes at most one fetch a minute, over all replicas
 * (contract §4), whenever they were read without one. The last good keys stay where that fails. Resolves to
 * null where it has not asked. Throws what the database throws.
 */
export async function refreshKeys(
  deps: KeyDeps,
  issuerId: IssuerId,
  cause: 'unknown key' | 'schedule' = 'unknown key',
): Promise<'read' | 'failed' | null> {
  // Its revisions would be those of other changes.
  if (historyOf(deps.sql).isRegressed) return null;
  const turn = { nowMs: deps.clock.now(), gapMs: keyFetchMsMin };
  if (!(await takeTurn(deps.sql, issuerId, turn))) return null;
  const stored = await findFederation(deps.sql, issuerId);
  if (stored === null) return null;
  try {
    const read = await fetchKeys(deps.outbound, stored.federation);
    const isStored = await storeKeys(
      deps,
      stored,
      read,
      cause === 'schedule' ? (0 as UnixMillis) : turn.nowMs,
    );
    return isStored ? 'read' : 'failed';
  } catch (error) {
    if (!(error instanceof KeysUnavailable)) throw error;
    deps.logger.warn({ issuer_id: issuerId, reason: error.message }, 'keys of an issuer cannot be read');
    await noteKeyFault(deps.sql, issuerId, error.message);
    return 'failed';
  }
}

/**
 * How long to wait for a reading of the keys: shortly for one that is under way, else for the next turn that
 * an unknown key gets. More than 0.
 */
export function keysWaitMs({ askedAtMs, keysAtMs, fault }: StoredFederation, nowMs: UnixMillis): number {
  const sinceMs = nowMs - (askedAtMs ?? 0);
  // Metadata and keys take a call each.
  const isUnderWay = fault === null && Number(askedAtMs) > Number(keysAtMs);
  if (isUnderWay && sinceMs < 2 * issuersLimits.keyCallMsMax) return issuersLimits.keyCallMsMax;
  return Math.min(keyFetchMsMin, Math.max(secondMs, keyFetchMsMin - sinceMs));
}

/** False: the issuer was changed meanwhile, and these keys may be those of another address. */
async function storeKeys(
  deps: KeyDeps,
  asked: FederatedIssuer,
  { keys, fault }: ReadKeys,
  askedAtMs: UnixMillis,
): Promise<boolean> {
  return changeTransaction(deps, async (tx, change) => {
    await lockIssuer(tx, asked, asked.issuerId);
    const stored = await findFederation(tx, asked.issuerId);
    if (stored === null || stored.version !== asked.version) return false;
    const isSame = canonicalJson(stored.keys) === canonicalJson(keys);
    const next = {
      ...stored,
      keys,
      fault,
      version: stored.version + (isSame ? 0 : 1),
      keysAtMs: deps.clock.now(),
    };
    await updateFederation(tx, next, askedAtMs);
    await putFederation(tx, change, next);
    return true;
  });
}

/**
 * Reads keys again that are due. Never throws. While the database is away it pauses; trouble is logged when
 * it begins and when it ends.
 */
export function followForeignKeys(deps: KeyDeps): Repetition {
  let isFailing = false;
  return repeat(async () => {
    try {
      const due = await dueFederations(deps.sql, {
        nowMs: deps.clock.now(),
        refreshMs: issuersLimits.keyRefreshMs,
        gapMs: keyFetchMsMin,
        max: issuersLimits.keyFetchesAtOnceMax,
      });
      await Promise.all(due.map((issuerId) => refreshKeys(deps, issuerId, 'schedule')));
      if (isFailing) deps.logger.info({}, 'keys of issuers are read again');
      isFailing = false;
    } catch (error) {
      if (!isFailing) deps.logger.warn({ err: error }, 'keys of issuers could not be read again');
      isFailing = true;
    }
    return issuersLimits.keyLookMs;
  });
}
