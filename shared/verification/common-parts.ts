import { federatedPassportId, ownerName, userKeyOf } from '../crypto/federated-id.ts';
import { writeDigest } from '../crypto/id-digest.ts';
import { type DigestWords, digestAt, idDigestWords } from '../model/id-digest.ts';
import type { PassportClaims } from '../model/passport-claims.ts';
import type { PermissionKey } from '../model/permission.ts';

/** An issuer and its account, with their digests in place; the passport's digest is left empty. */
interface Issuer {
  readonly issuerId: PassportClaims['issuerId'];
  readonly accountId: PassportClaims['accountId'];
  readonly digests: DigestWords;
}

/**
 * Cached issuers, and lists of permissions; beyond this the cache starts over. A sidecar meets a few of each,
 * and only signed claims come here.
 */
const partsMax = 256;

const issuers = new Map<string, Issuer>();
const permissionSets = new Map<string, ReadonlySet<string>>();

/**
 * The issuer of a passport, shared by all its passports instead of a copy per token: a sidecar
 * remembers tens of thousands of passports, and every garbage collection visits each of their objects.
 */
export function issuerOf({ issuerId, accountId }: Pick<PassportClaims, 'issuerId' | 'accountId'>): Issuer {
  const known = issuers.get(issuerId);
  if (known !== undefined && known.accountId === accountId) return known;
  const digests = new Int32Array(3 * idDigestWords) as DigestWords;
  writeDigest(digests, digestAt.issuer, issuerId);
  writeDigest(digests, digestAt.account, accountId);
  const issuer: Issuer = { issuerId, accountId, digests };
  if (issuers.size >= partsMax) issuers.clear();
  issuers.set(issuerId, issuer);
  return issuer;
}

/**
 * The digests of passport, issuer, account and, if there is one, the owner: `digestWordsOf` of these.
 * `userAsSubject`: of a token of another issuer, whose user may be one of its subjects; null: nobody. The
 * digest of no owner is then zero.
 */
export function digestsOf(
  { passportId, mode, owner }: Pick<PassportClaims, 'passportId' | 'mode' | 'owner'>,
  issuer: Issuer,
  userAsSubject: string | null = null,
): DigestWords {
  const beside = userAsSubject !== null ? 2 : owner !== null ? 1 : 0;
  const words = new Int32Array(digestAt.owner + beside * idDigestWords) as DigestWords;
  words.set(issuer.digests);
  writeDigest(words, digestAt.passport, passportId);
  if (owner !== null) writeDigest(words, digestAt.owner, ownerName({ ...issuer, mode }, owner));
  if (userAsSubject !== null)
    writeDigest(words, digestAt.user, federatedPassportId(issuer.issuerId, userAsSubject));
  return words;
}

/** See VerifiedPassport. */
export const userKeyIn = ({ issuerId, user }: Pick<PassportClaims, 'issuerId' | 'user'>) =>
  user === null ? null : userKeyOf(issuerId, user);

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
