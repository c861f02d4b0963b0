import { encodeBase64url } from '../crypto/base64url.ts';
import type { Ed25519 } from '../crypto/ed25519.ts';
import type { VerificationKey } from '../model/signing-key.ts';
import { type CosignatureTimes, isCosignedBy, witnessClockMsMax } from './cosignature.ts';
import { isSignedBy, type Note, type NoteKey, parseVkey, signatureTypes } from './note.ts';

/** C2SP tlog-policy. */
export interface WitnessPolicy {
  readonly logs: readonly PolicyKey[];
  readonly witnesses: readonly (PolicyKey & { readonly name: string })[];
  /** Null: `quorum none`. */
  readonly quorum: QuorumRule | null;
}

export interface PolicyKey {
  readonly key: NoteKey;
  readonly url: string | null;
}

export type QuorumRule =
  | { readonly kind: 'witness'; readonly name: string }
  | { readonly kind: 'group'; readonly least: number; readonly members: readonly QuorumRule[] };

/** Ten times what C2SP asks every reader to take; groups within groups cost a reader stack. */
export const policyBounds = {
  ...{ bytesMax: 256 * 1024, linesMax: 4_096, keysMax: 320, groupDepthMax: 32 },
} as const;

/** A mistake in a policy; the message names the line. */
export class WitnessPolicyError extends Error {
  override readonly name = 'WitnessPolicyError';
}

interface Reading {
  readonly ed25519: Pick<Ed25519, 'verifier'>;
  readonly logs: PolicyKey[];
  readonly witnesses: (PolicyKey & { readonly name: string })[];
  readonly rules: Map<string, QuorumRule>;
  /** Groups within each rule, one inside of the other. */
  readonly depths: Map<QuorumRule, number>;
  /** Members of a group: each name is one at most once. */
  readonly members: Set<string>;
  quorum: QuorumRule | null | undefined;
}

/**
 * `file`: as bytes, because what is not ASCII in it has no encoding. Throws WitnessPolicyError, which names
 * the line.
 */
export function parseWitnessPolicy(ed25519: Pick<Ed25519, 'verifier'>, file: Uint8Array): WitnessPolicy {
  if (file.length > policyBounds.bytesMax)
    throw new WitnessPolicyError(`it is larger than ${policyBounds.bytesMax} bytes`);
  const lines = Buffer.from(file).toString('latin1').split('\n');
  if (lines.length > policyBounds.linesMax)
    throw new WitnessPolicyError(`it has more than ${policyBounds.linesMax} lines`);
  const reading: Reading = {
    ed25519,
    logs: [],
    witnesses: [],
    rules: new Map(),
    depths: new Map(),
    members: new Set(),
    quorum: undefined,
  };
  for (const [at, line] of lines.entries()) {
    const fault = readLine(reading, line);
    if (fault !== null) throw new WitnessPolicyError(`line ${at + 1}: ${fault}`);
  }
  const { logs, witnesses, quorum } = reading;
  if (quorum === undefined) throw new WitnessPolicyError('it has no quorum line');
  return { logs, witnesses, quorum };
}

/** What is wrong with the line; null: nothing. */
function readLine(reading: Reading, line: string): string | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a policy must not hold
  if (/[\u0000-\u0008\u000b-\u001f\u007f]/.test(line))
    return 'only tab and newline may be control characters';
  const words = line.split(/[ \t]+/).filter((word) => word !== '');
  const [kind, ...rest] = words;
  if (kind === undefined || kind.startsWith('#')) return null;
  switch (kind) {
    case 'log':
      return readLog(reading, rest);
    case 'witness':
      return readWitness(reading, rest);
    case 'group':
      return readGroup(reading, rest);
    case 'quorum':
      return readQuorum(reading, rest);
    default:
      return 'it begins with none of log, witness, group and quorum';
  }
}

function readLog({ ed25519, logs }: Reading, [vkey = '', url, ...more]: readonly string[]): string | null {
  const key = parseVkey(ed25519, vkey);
  if (key?.type !== signatureTypes.ed25519)
    return 'a log has a vkey of an Ed25519 key that signs notes (type 01)';
  if (more.length > 0) return 'a log has a vkey and at most a URL';
  return addKey(logs, { key, url: url ?? null });
}

function readWitness(
  reading: Reading,
  [name = '', vkey = '', url, ...more]: readonly string[],
): string | null {
  const key = parseVkey(reading.ed25519, vkey);
  if (key?.type !== signatureTypes.cosignature)
    return 'a witness has a name and a vkey of an Ed25519 key that cosigns (type 04)';
  if (more.length > 0) return 'a witness has a name, a vkey and at most a URL';
  if (url !== undefined && !isHttpUrl(url)) return 'the URL of a witness begins with http:// or https://';
  return (
    addName(reading, name, { kind: 'witness', name }) ??
    addKey(reading.witnesses, { key, url: url ?? null, name })
  );
}

const isHttpUrl = (text: string): boolean => /^https?:\/\/[^/?#@]+[^?#]*$/.test(text) && URL.canParse(text);

function addKey<Key extends PolicyKey>(keys: Key[], added: Key): string | null {
  const isSame = ({ key }: PolicyKey) => Buffer.compare(key.publicKey, added.key.publicKey) === 0;
  if (keys.some(isSame)) return 'an earlier line has the same public key';
  if (keys.length === policyBounds.keysMax) return `it is more than ${policyBounds.keysMax} keys`;
  keys.push(added);
  return null;
}

function addName({ rules }: Reading, name: string, rule: QuorumRule): string | null {
  if (name === 'none') return 'none is no name of a witness or group';
  if (rules.has(name)) return `an earlier line defines ${name}`;
  rules.set(name, rule);
  return null;
}

function readGroup(reading: Reading, [name = '', least = '', ...members]: readonly string[]): string | null {
  if (members.length === 0) return 'a group has a name, any, all or a number, and at least one member';
  const rules: QuorumRule[] = [];
  for (const member of members) {
    const rule = reading.rules.get(member);
    if (rule === undefined) return `no line before defines ${member}`;
    if (reading.members.has(member)) return `${member} is a member of a group already`;
    reading.members.add(member);
    rules.push(rule);
  }
  const count = { any: 1, all: members.length }[least] ?? (/^[1-9]\d{0,3}$/.test(least) ? Number(least) : 0);
  if (count < 1 || count > members.length)
    return `a group has any, all or a number from 1 to its ${members.length}`;
  const depth = 1 + Math.max(...rules.map((rule) => reading.depths.get(rule) ?? 0));
  if (depth > policyBounds.groupDepthMax)
    return `groups lie in groups at most ${policyBounds.groupDepthMax} deep`;
  const group: QuorumRule = { kind: 'group', least: count, members: rules };
  reading.depths.set(group, depth);
  return addName(reading, name, group);
}

function readQuorum(reading: Reading, [name = '', ...more]: readonly string[]): string | null {
  if (reading.quorum !== undefined) return 'an earlier line is the quorum';
  const rule = name === 'none' ? null : reading.rules.get(name);
  if (rule === undefined || more.length > 0)
    return 'quorum is followed by none, or a witness or group of a line before';
  reading.quorum = rule;
  return null;
}

/** Whether these witnesses, by name, are enough. */
export function isQuorum(rule: QuorumRule | null, names: ReadonlySet<string>): boolean {
  if (rule === null) return true;
  if (rule.kind === 'witness') return names.has(rule.name);
  return rule.members.filter((member) => isQuorum(member, names)).length >= rule.least;
}

export interface Standing {
  /** Of the logs, those whose key has signed. */
  readonly isLogSigned: boolean;
  /** Names of the witnesses that cosigned. */
  readonly witnesses: readonly string[];
  readonly isWitnessed: boolean;
  /** Names of the witnesses whose cosignatures do not count, because of their time. Absent: none. */
  readonly untimely?: readonly string[];
  /** Names of keys whose signatures do not verify: such a note is worth nothing. */
  readonly forged: readonly string[];
}

/** By what a verifier judges times. */
export interface OfflineClock {
  readonly nowMs: number;
  /** The JWKS of the service, which has the keys of its log. */
  readonly keys: readonly Pick<VerificationKey, 'purpose' | 'publicKey' | 'notBeforeMs'>[];
}

/** No witness can have cosigned what the log could not sign yet, nor what it will sign. */
function timesOf(signers: readonly NoteKey[], { nowMs, keys }: OfflineClock): CosignatureTimes {
  const shown = new Set(signers.map(({ publicKey }) => encodeBase64url(publicKey)));
  const own = keys.filter(({ purpose, publicKey }) => purpose === 'log' && shown.has(publicKey));
  const fromMs = own.length === 0 ? 0 : Math.min(...own.map(({ notBeforeMs }) => notBeforeMs));
  return { fromMs, untilMs: nowMs + witnessClockMsMax };
}

/** What this policy says of a checkpoint with its signatures. Without a clock those of any time count. */
export function judgeNote(
  { logs, witnesses, quorum }: WitnessPolicy,
  note: Note,
  clock: OfflineClock | null = null,
): Standing {
  const origin = note.text.slice(0, note.text.indexOf('\n'));
  const byLog = logs
    .filter(({ key }) => key.name === origin)
    .map(({ key }) => ({ key, state: isSignedBy(note, key) }));
  const signers = byLog.flatMap(({ key, state }) => (state === 'signed' ? [key] : []));
  const times = clock === null ? undefined : timesOf(signers, clock);
  const byWitness = witnesses.map(({ key, name }) => ({ name, state: isCosignedBy(note, key, times) }));
  const named = (wanted: string) => byWitness.flatMap(({ name, state }) => (state === wanted ? [name] : []));
  const [signedBy, untimely] = [named('signed'), named('untimely')];
  return {
    isLogSigned: signers.length > 0,
    witnesses: signedBy,
    isWitnessed: isQuorum(quorum, new Set(signedBy)),
    ...(untimely.length > 0 && { untimely }),
    forged: [
      ...byLog.flatMap(({ key, state }) => (state === 'forged' ? [key.name] : [])),
      ...named('forged'),
    ],
  };
}
