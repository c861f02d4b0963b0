/**
 * Room `control-plane/issuers`: issuers, created and updated, and the default one of an account. SQL in
 * `issuer-store.ts`. Of issuers of others (contract §4): `fetch-keys.ts` and `follow-keys.ts` read their
 * keys, `federation-store.ts` has the SQL.
 */

import type { ReadKeys } from '../../shared/crypto/foreign-key.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { Federation } from '../../shared/model/federation.ts';
import type { Issuer, IssuerFederation } from '../../shared/model/issuer.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderFederation, type WantedFederation } from '../../shared/wire/api/federation.ts';
import type { CountedIssuer, NewIssuer } from '../../shared/wire/api/issuer.ts';
import type { Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { countFederations, insertFederation, type KeptFederation } from './federation-store.ts';
import { fetchKeys, KeysUnavailable, readPastedKeys } from './fetch-keys.ts';
import { type KeyDeps, putFederation } from './follow-keys.ts';
import { readNamedWallet, refuseUnknownWallet } from './hold-wallet.ts';
import { insertIssuer } from './issuer-store.ts';

/** A new issuer, of others with the keys that it has now. */
export type ReadIssuer = Omit<NewIssuer, 'federation'> & { readonly federation: ReadFederation | null };

/** Settings with the keys that were read for them. */
export interface ReadFederation extends ReadKeys {
  readonly federation: Federation;
}

/**
 * Reads the keys of an issuer of others before anything is written, so that a wrong address is refused here
 * and not by every gate. Throws `invalid_request`.
 */
export async function readWantedKeys(
  { outbound }: Pick<KeyDeps, 'outbound'>,
  { federation, jwks }: WantedFederation,
): Promise<ReadFederation> {
  try {
    const read = federation.isPasted
      ? readPastedKeys(jwks, federation)
      : await fetchKeys(outbound, federation);
    return { federation, ...read };
  } catch (error) {
    if (!(error instanceof KeysUnavailable)) throw error;
    const name = federation.isPasted ? 'jwks' : federation.jwksUri === null ? 'issuer' : 'jwks_uri';
    throw invalidRequest(`federation.${name}`, error.message);
  }
}

/** Published to sidecars if it is one of others: of the others they only know which are suspended. */
export async function createIssuer(
  tx: Transaction,
  change: WriteChange,
  { random, clock }: Pick<KeyDeps, 'random' | 'clock'>,
  owner: Owner,
  { federation: wanted, walletId: asked, ...rest }: ReadIssuer,
): Promise<CountedIssuer> {
  const nowMs = clock.now();
  const issuer: Issuer = {
    ...rest,
    issuerId: random.newId('iss', nowMs),
    accountId: owner.accountId,
    mode: owner.mode,
    status: 'active',
    isDefault: false,
    walletId: await readNamedWallet(tx, owner, asked),
    createdAtMs: nowMs,
    federation: null,
  };
  const isInserted = await insertIssuer(tx, issuer);
  assert(isInserted, 'an issuer that is no default meets no other');
  const counts = {
    passportCount: 0,
    activePassports: 0,
    revokedPassports: 0,
    lastPassportIssuedAtMs: null,
  };
  if (wanted === null) {
    await refuseUnknownWallet(tx, owner, issuer.walletId);
    return { ...issuer, ...counts };
  }
  if ((await countFederations(tx, owner)) >= limits.federationsMax)
    throw new ApiError('invalid_request', {
      message: `An account has at most ${limits.federationsMax} issuers of others in each mode.`,
    });
  const federated: KeptFederation = {
    issuerId: issuer.issuerId,
    accountId: issuer.accountId,
    mode: issuer.mode,
    version: 1,
    ...wanted,
    keysAtMs: wanted.federation.isPasted ? null : nowMs,
    hasWallets: issuer.walletId !== null,
  };
  await insertFederation(tx, federated);
  await refuseUnknownWallet(tx, owner, issuer.walletId);
  await putFederation(tx, change, { ...federated, status: 'active' });
  return { ...issuer, ...counts, federation: federationOf(federated) };
}

/** As an answer shows it, right after its keys were read. */
const federationOf = ({ version, federation, keys, keysAtMs, fault }: KeptFederation): IssuerFederation => ({
  version,
  settings: renderFederation(federation) as unknown as IssuerFederation['settings'],
  keys,
  keysAtMs,
  fault,
});
