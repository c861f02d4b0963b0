import type { IdDigest } from '../model/id-digest.ts';
import type { GateId, IssuerId, PassportId } from '../model/ids.ts';
import { assembleId, idRandomBytes } from '../model/ids.ts';
import { sha256Bytes } from './content-hash.ts';
import { idDigest } from './id-digest.ts';

const timeChars = 10;

/**
 * The id of the one passport of a subject of an issuer (contract §4). Every program derives the same, before
 * anybody has stored it. Its time is that of the issuer.
 */
export function federatedPassportId(issuerId: IssuerId, subject: string): PassportId {
  const time = issuerId.slice(issuerId.indexOf('_') + 1).slice(0, timeChars);
  const hash = sha256Bytes(`agent-trust.federated.v1:${issuerId}:${subject}`);
  return assembleId('pass', time, hash.subarray(0, idRandomBytes), 0);
}

/**
 * Whose units a limit per user counts: the pair of issuer and text, so that the texts of two issuers, which
 * may mean two people, share no window.
 */
export const userKeyOf = (issuerId: IssuerId, user: string): IdDigest => idDigest(`user:${issuerId}:${user}`);

/** What an owner's standing is looked up by, beside those of passports (contract §4). */
export const ownerName = (
  { accountId, mode }: { readonly accountId: string; readonly mode: string },
  owner: string,
): string => `owner:${accountId}:${mode}:${owner}`;

/** The gate that never was whose end carries a change of this issuer (wire/sync-schema.ts). */
export const federationCarrier = (issuerId: IssuerId): GateId =>
  issuerId.replace(/^iss_/, 'gate_') as unknown as GateId;
