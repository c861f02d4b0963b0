import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import type { Federation } from '../../shared/model/federation.ts';
import { limits } from '../../shared/model/limits.ts';
import { isNameOf } from '../../shared/verification/name-form.ts';
import { canonicalName } from '../../shared/wire/api/email.ts';
import { federationLimits } from './limits.ts';

/** One whom an event means: a subject of the issuer, or an owner of passports. */
export interface Meant {
  readonly kind: 'subject' | 'owner';
  readonly name: string;
}

/** What an identifier says. `kind`: its format. `name`: its text, to be compared. */
interface Named {
  readonly kind: string;
  readonly name: string;
  /** The value of a claim, null for that of another issuer, and the claims that have such values. */
  readonly value: string | null;
  readonly pointers: readonly string[];
}

/** A format of RFC 9493 §3.2. `read`: the value, from the members that identify; null: it is none. */
interface Format {
  readonly members: readonly string[];
  readonly pointers: readonly string[];
  readonly read?: (values: readonly string[]) => string | null;
}

const addresses = ['/email', '/preferred_username', '/upn'];
/** RFC 7565, without what would have to be decoded. */
const acct = /^acct:([^@%]+@[^@%]+)$/i;

const formats: Readonly<Record<string, Format>> = {
  iss_sub: { members: ['sub', 'iss'], pointers: ['/sub'] },
  opaque: { members: ['id'], pointers: ['/sub', '/oid'] },
  uri: { members: ['uri'], pointers: ['/sub'] },
  did: { members: ['url'], pointers: ['/sub'] },
  email: { members: ['email'], pointers: addresses },
  account: { members: ['uri'], pointers: addresses, read: ([uri = '']) => acct.exec(uri)?.[1] ?? null },
  phone_number: { members: ['phone_number'], pointers: ['/phone_number'] },
};
const identifyingMembers = new Set(Object.values(formats).flatMap(({ members }) => members));

/**
 * Those whom all these subject identifiers (RFC 9493) mean, by the claims that name subjects and owners here.
 * A text says why it is not known whom.
 */
export function whomTheyMean(
  identifiers: readonly unknown[],
  federation: Federation,
): readonly Meant[] | string {
  if (identifiers.length === 0) return 'the event does not say whom it is about';
  const named = identifiers.map((each) => namesIn(each, federation.issuer));
  if (named.some((names) => names.length === 0))
    return 'a subject identifier has a format, or members, that are not understood (RFC 9493)';
  const meant = named.map((names) => names.flatMap((name) => meantBy(name, federation)));
  if ([named, meant].some((said) => said.some((one) => said.some((other) => areApart(one, other)))))
    return 'the event names two subjects that contradict each other';
  const told = meant
    .flat()
    .map(({ kind, name }): Meant => ({ kind: kind === 'user' ? 'subject' : kind, name }));
  const all = new Map(told.map((each) => [`${each.kind} ${each.name}`, each]));
  return all.size > 0
    ? [...all.values()]
    : 'no claim of this issuer (claims.agent_id, claims.user, claims.owner) has such values';
}

type Said = Pick<Named, 'kind' | 'name'>;

/** Whether both say something of one kind, and nothing of it is the same. */
const areApart = (one: readonly Said[], other: readonly Said[]): boolean =>
  one.some(({ kind }) => {
    const [mine, theirs] = [one, other].map((said) => said.filter((each) => each.kind === kind));
    return theirs?.length !== 0 && !mine?.some(({ name }) => theirs?.some((each) => each.name === name));
  });

/** What an identifier says, all of one subject. Nothing: it is not understood. */
function namesIn(identifier: unknown, issuer: string, isUser = false): readonly Named[] {
  if (!isJsonObject(identifier)) return [];
  const { user, identifiers } = identifier;
  const format = formatOf(identifier);
  // Shared Signals §3.3: whatever else it names, it is about its user. Drafts gave it no format.
  if (format === 'complex' || (format === undefined && user !== undefined))
    return isUser ? [] : namesIn(user, issuer, true);
  if (format !== 'aliases') return simpleNames(identifier, issuer);
  if (!Array.isArray(identifiers) || identifiers.length > federationLimits.aliasesMax) return [];
  // They are for receivers that do not understand all of them. RFC 9493 §3.2.8: none has others in it.
  const aliases = identifiers.filter(isJsonObject);
  if (aliases.some((each) => formatOf(each) === 'aliases')) return [];
  return aliases.flatMap((each) => simpleNames(each, issuer));
}

/** `subject_type` and `iss-sub`: as drafts had it, and Google has it. */
const formatOf = ({ format, subject_type: ofDrafts }: JsonObject): unknown =>
  format ?? (ofDrafts === 'iss-sub' ? 'iss_sub' : ofDrafts);

/** Members of another format make it another subject. All others say nothing of who it is. */
function simpleNames(identifier: JsonObject, issuer: string): readonly Named[] {
  const kind = formatOf(identifier);
  const format = typeof kind === 'string' && Object.hasOwn(formats, kind) ? formats[kind] : undefined;
  if (typeof kind !== 'string' || format === undefined) return [];
  const values = format.members.map((member) => identifier[member]).filter(isText);
  const given = Object.keys(identifier).filter((member) => identifyingMembers.has(member));
  if (values.length !== format.members.length || values.length !== given.length) return [];
  const value = (format.read ?? first)(values);
  if (value === null) return [];
  const isOther = kind === 'iss_sub' && identifier['iss'] !== issuer;
  const { pointers } = format;
  return [{ kind, name: canonicalName(values.join(' ')), value: isOther ? null : value, pointers }];
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const first = ([value = '']: readonly string[]): string => value;

/** Nobody, where no claim has such values, or no token can have this one. */
function meantBy(
  { pointers, value }: Named,
  { claims }: Federation,
): readonly { readonly kind: Meant['kind'] | 'user'; readonly name: string }[] {
  const name = canonicalName(value);
  const meant: { kind: Meant['kind'] | 'user'; name: string }[] = [];
  if (pointers.includes(claims.agentId) && isNameOf(name, limits.foreignSubjectCharsMax))
    meant.push({ kind: 'subject', name });
  // A user is stopped as a subject, and may be another one than that which acts for him.
  if (claims.user !== null && pointers.includes(claims.user) && isNameOf(name, limits.userCharsMax))
    meant.push({ kind: 'user', name });
  if (claims.owner !== null && pointers.includes(claims.owner) && isNameOf(name, limits.ownerCharsMax))
    meant.push({ kind: 'owner', name });
  return meant;
}
