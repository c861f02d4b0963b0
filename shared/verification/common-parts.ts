import { writeDigest } from '../crypto/id-digest.ts';
import { type DigestWords, digestAt, idDigestWords } from '../model/id-digest.ts';
import type { PassportClaims } from '../model/passport-claims.ts';
import type { PermissionKey } from '../model/permission.ts';

/** An issuer and its account, with their digests at their places; that of the passport is empty. */
interface Owner {
  readonly issuerId: PassportClaims['issuerId'];
  readonly accountId: PassportClaims['accountId'];
  readonly digests: DigestWords;
}

/**
 * Issuers, and lists of permissions, that are remembered; past this the memory starts again. A sidecar meets
 * a few of each, and only signed claims come here.
 */
const partsMax = 256;

const owners = new Map<string, Owner>();
const permissionSets = new Map<string, ReadonlySet<string>>();

/**
 * Who stands behind a passport: the same texts for all passports of an issuer, in place of copies that each
 * token brings. A sidecar remembers passports by the ten thousand, and every object of theirs is looked at by
 * each collection of garbage.
 */
export function ownerOf({ issuerId, accountId }: Pick<PassportClaims, 'issuerId' | 'accountId'>): Owner {
  const known = owners.get(issuerId);
  if (known !== undefined && known.accountId === accountId) return known;
  const digests = new Int32Array(3 * idDigestWords) as DigestWords;
  writeDigest(digests, digestAt.issuer, issuerId);
  writeDigest(digests, digestAt.account, accountId);
  const owner: Owner = { issuerId, accountId, digests };
  if (owners.size >= partsMax) owners.clear();
  owners.set(issuerId, owner);
  return owner;
}

/** The digests of a passport and of who stands behind it, as `digestWordsOf` of the three. */
export function digestsOf(passportId: PassportClaims['passportId'], owner: Owner): DigestWords {
  const words = Int32Array.from(owner.digests) as DigestWords;
  writeDigest(words, digestAt.passport, passportId);
  return words;
}

/** The permissions as a set: one and the same for all lists that are equal. */
export function permissionSetOf(permissions: readonly PermissionKey[]): ReadonlySet<string> {
  // No permission has a space in it.
  const name = permissions.join(' ');
  const known = permissionSets.get(name);
  if (known !== undefined) return known;
  const made = new Set<string>(permissions);
  if (permissionSets.size >= partsMax) permissionSets.clear();
  permissionSets.set(name, made);
  return made;
}
