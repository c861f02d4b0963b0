import type { Static } from 'typebox';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { Federation, ForeignKey } from '../../shared/model/federation.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import type { Issuer } from '../../shared/model/issuer.ts';
import {
  type FederationChange,
  parseFederation,
  renderFederationAnswer,
} from '../../shared/wire/api/federation.ts';
import {
  type CountedIssuer,
  type IssuerChange,
  type IssuerUpdate,
  issuerReadOnly,
  parseIssuerUpdate,
  renderIssuerReadOnly,
} from '../../shared/wire/api/issuer.ts';
import { refuseChanges } from '../../shared/wire/api/read-only.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { type ReadFederation, readWantedKeys } from './create-issuer.ts';
import {
  findFederation,
  type KeptFederation,
  type StoredFederation,
  updateFederation,
} from './federation-store.ts';
import { type KeyDeps, putFederation } from './follow-keys.ts';
import { readNamedWallet, refuseUnknownWallet } from './hold-wallet.ts';
import { findCountedIssuer, findIssuer, lockIssuer, updateIssuerRow } from './issuer-store.ts';

/**
 * A suspended issuer's passports are blocked everywhere, so its standing is published to the sidecars of all
 * accounts. What an issuer of others is goes to those of its own account.
 */
export async function updateIssuer(
  deps: SigningDeps,
  caller: Caller,
  {
    issuerId,
    body,
    replacing = null,
  }: {
    readonly issuerId: IssuerId;
    readonly body: Static<typeof IssuerUpdate>;
    /** By `readReplacing`, where the body has a `federation`. */
    readonly replacing?: Replacing | null;
  },
): Promise<CountedIssuer> {
  const wanted = parseIssuerUpdate(body);
  assert((wanted.federation === null) === (replacing === null), 'keys are read before anything is locked');
  return administer(deps, caller, async (tx, change) => {
    const current = await lockIssuer(tx, caller, issuerId);
    if (current === null) throw new ApiError('issuer_not_found');
    refuseChanges(body, renderIssuerReadOnly(current), issuerReadOnly);
    const status = wanted.status ?? current.status;
    const next: Issuer = {
      ...current,
      name: wanted.name ?? current.name,
      metadata: wanted.metadata ?? current.metadata,
      status,
      walletId: await walletOf(tx, caller, { wanted, current }),
    };
    const stored = await findFederation(tx, issuerId);
    await updateIssuerRow(tx, issuerId, next, deps.clock.now());
    const federated = stored === null ? null : await replace(tx, deps, stored, { replacing, next });
    if (next.walletId !== current.walletId) await refuseUnknownWallet(tx, caller, next.walletId);
    const updated = await findCountedIssuer(tx, caller, { issuerId, nowMs: deps.clock.now() });
    if (federated !== null && (federated.version !== stored?.version || status !== current.status))
      await putFederation(tx, change, { ...federated, status });
    if (status !== current.status) {
      await change(globalFeed, {
        kind: 'issuer.standing',
        body: { issuer: idDigest(issuerId), standing: status },
      });
    }
    const result = must(updated, 'a locked issuer is still there');
    const before = issuerOnRecord(current);
    return {
      result,
      audited: {
        operation: 'updateIssuer',
        target: issuerId,
        before,
        after: issuerOnRecord({ ...next, federation: result.federation }),
      },
    };
  });
}

/** New settings with the keys that go with them; keys null: pasted before, and they stay. */
export interface Replacing extends Omit<ReadFederation, 'keys'> {
  readonly keys: readonly ForeignKey[] | null;
}

/** Reads the keys of changed settings before anything is locked. Throws as `readWantedKeys`. */
export async function readReplacing(
  deps: KeyDeps,
  caller: Caller,
  issuerId: IssuerId,
  body: Static<typeof FederationChange>,
): Promise<Replacing> {
  const issuer = await findIssuer(deps.sql, caller, issuerId);
  if (issuer === null) throw new ApiError('issuer_not_found');
  const stored = await findFederation(deps.sql, issuerId);
  if (stored === null)
    throw invalidRequest('federation', 'This issuer issues passports here: register another one.');
  const { is_pasted: _, keys: __, keys_read_at: ___, keys_fault: ____, ...settings } = body;
  const keepsKeys = stored.federation.isPasted && body.jwks === undefined && body.jwks_uri === undefined;
  // Only its form: it is replaced by the keys that are there.
  const asked = keepsKeys ? { ...settings, jwks: { keys: [] } } : settings;
  const wanted = parseFederation(asked, issuer.trustTier);
  const { federation } = wanted;
  if (federation.type !== stored.federation.type || federation.issuer !== stored.federation.issuer)
    throw invalidRequest('federation', 'type and issuer cannot change: register another issuer.');
  if (federation.trustTier !== issuer.trustTier)
    throw invalidRequest('federation.trust_tier', 'trust_tier cannot change: register another issuer.');
  return keepsKeys ? { federation, keys: null, fault: null } : readWantedKeys(deps, wanted);
}

async function replace(
  tx: Transaction,
  { clock }: Pick<SigningDeps, 'clock'>,
  before: StoredFederation,
  changed: { readonly replacing: Replacing | null; readonly next: Issuer },
): Promise<KeptFederation> {
  const { replacing } = changed;
  const hasWallets = before.hasWallets || changed.next.walletId !== null;
  if (replacing === null && hasWallets === before.hasWallets) return before;
  const next = { ...before, ...replaced(before, replacing, clock), version: before.version + 1, hasWallets };
  await updateFederation(tx, next);
  return next;
}

function replaced(
  before: StoredFederation,
  replacing: Replacing | null,
  clock: SigningDeps['clock'],
): Pick<KeptFederation, 'federation' | 'keys' | 'keysAtMs' | 'fault'> {
  if (replacing === null) return before;
  const { federation, keys, fault } = replacing;
  return {
    federation,
    fault,
    keys: keys ?? keysFor(before, federation),
    keysAtMs: federation.isPasted ? null : clock.now(),
  };
}

/** Of passports that come from now on. Throws `wallet_not_found`. */
async function walletOf(
  tx: Transaction,
  caller: Caller,
  { wanted: { walletId }, current }: { readonly wanted: IssuerChange; readonly current: Issuer },
): Promise<Issuer['walletId']> {
  if (walletId === undefined || walletId === current.walletId) return current.walletId;
  return readNamedWallet(tx, caller, walletId);
}

/** Of the pasted keys those that may still be used. Each is bound to an algorithm since it was read. */
function keysFor({ keys }: StoredFederation, { algorithms }: Federation): readonly ForeignKey[] {
  const kept = keys.filter(({ algorithm }) => algorithms.includes(algorithm));
  if (kept.length === 0)
    throw invalidRequest('federation.jwks', 'No pasted key is for one of these algorithms: send jwks again.');
  return kept;
}

/** An issuer as the audit shows it: without the counts of its passports, which move by themselves. */
export const issuerOnRecord = ({
  issuerId,
  name,
  domain,
  trustTier,
  metadata,
  status,
  walletId,
  federation,
}: Issuer) => ({
  issuer_id: issuerId,
  name,
  domain,
  trust_tier: trustTier,
  metadata,
  status,
  wallet_id: walletId,
  ...(federation !== null && { federation: onRecord(federation) }),
});

/** Without the time of the last reading, which moves by itself. */
function onRecord(federation: NonNullable<Issuer['federation']>) {
  const { keys_read_at: _, keys_fault: __, ...settings } = renderFederationAnswer(federation);
  return settings;
}
