import { must } from '../../shared/errors/assert.ts';
import { defaultIssuerName, type Issuer } from '../../shared/model/issuer.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findDefaultIssuer, insertIssuer } from './issuer-store.ts';

/**
 * The account's issuer for requests that name none (contract §3). Created on first use. Concurrent requests
 * get the same one: the second insert waits for the first transaction, then does nothing.
 */
export async function ensureDefaultIssuer(
  tx: Transaction,
  { random, clock }: Pick<SigningDeps, 'random' | 'clock'>,
  owner: Owner,
): Promise<Issuer> {
  const existing = await findDefaultIssuer(tx, owner);
  if (existing !== null) return existing;
  const nowMs = clock.now();
  await insertIssuer(tx, {
    issuerId: random.newId('iss', nowMs),
    accountId: owner.accountId,
    mode: owner.mode,
    name: defaultIssuerName,
    domain: null,
    trustTier: 'L3',
    metadata: {},
    status: 'active',
    isDefault: true,
    walletId: null,
    createdAtMs: nowMs,
    federation: null,
  });
  return must(await findDefaultIssuer(tx, owner), 'an account has a default issuer once one was inserted');
}
