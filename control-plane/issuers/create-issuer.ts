/**
 * Room `control-plane/issuers`: issuers, created and updated, and the default one of an account. SQL in
 * `issuer-store.ts`.
 */

import { assert } from '../../shared/errors/assert.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { CountedIssuer, NewIssuer } from '../../shared/wire/issuer.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { insertIssuer } from './issuer-store.ts';

/** Not published to sidecars, which only know suspended issuers. */
export async function createIssuer(
  tx: Transaction,
  { random, clock }: Pick<SigningDeps, 'random' | 'clock'>,
  owner: Owner,
  wanted: NewIssuer,
): Promise<CountedIssuer> {
  const nowMs = clock.now();
  const issuer = {
    ...wanted,
    issuerId: random.newId('iss', nowMs),
    accountId: owner.accountId,
    mode: owner.mode,
    status: 'active',
    isDefault: false,
    createdAtMs: nowMs,
  } as const;
  const isInserted = await insertIssuer(tx, issuer);
  assert(isInserted, 'an issuer that is no default meets no other');
  return {
    ...issuer,
    passportCount: 0,
    activePassports: 0,
    revokedPassports: 0,
    lastPassportIssuedAtMs: null,
  };
}
