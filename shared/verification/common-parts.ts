import { writeDigest } from '../crypto/id-digest.ts';
import { type DigestWords, digestAt, idDigestWords } from '../model/id-digest.ts';
import type { PassportClaims } from '../model/passport-claims.ts';
import type { PermissionKey } from '../model/permission.ts';

/** An issuer and its account, with their digests in place; the passport's digest is left empty. */
interface Owner {
  readonly issuerId: PassportClaims['issuerId'];
  readonly accountId: PassportClaims['accountId'];
  readonly digests: DigestWords;
}

/**
 * Cached issuers, and lists of permissions; beyond this the cache starts over. A sidecar meets a few of each,
 * and only signed claims come here.
 */
const partsMax = 256;

const owners = new Map<string, Owner>();
const permissionSets = new Map<string, ReadonlySet<string>>();

/**
 * The owner of a passport, shared by all passports of an issuer instead of a copy per token: a sidecar
 * remembers tens of thousands of passports, and every garbage collection visits each of their objects.
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

/** The digests of passport, issuer and account: `digestWordsOf` of the three. */
export function digestsOf(passportId: PassportClaims['passportId'], owner: Owner): DigestWords {
  const words = Int32Array.from(owner.digests) as DigestWords;
  writeDigest(words, digestAt.passport, passportId);
  return words;
}

/** The permissions as a set, shared by equal lists. */
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
