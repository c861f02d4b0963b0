import { encode, fromBase64 } from './canonical.ts';
import type { ServiceKey } from './keys.ts';

/** A key that signs notes (1) or cosigns them (4), by its vkey (C2SP signed-note). */
export interface NoteKey extends ServiceKey {
  readonly name: string;
  readonly keyId: string;
  readonly type: number;
}

/** C2SP tlog-policy. */
export interface LogPolicy {
  readonly logs: readonly NoteKey[];
  readonly witnesses: ReadonlyMap<string, NoteKey>;
  /** Whether these witnesses are enough. */
  readonly isQuorum: (names: ReadonlySet<string>) => boolean;
}

type Rule = (names: ReadonlySet<string>) => boolean;

/** Groups within groups: each costs stack. */
const groupDepthMax = 32;

const hex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');

async function noteKey(vkey: string): Promise<NoteKey | null> {
  const [, name = '', keyId = '', encoded = ''] =
    /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(vkey) ?? [];
  const bytes = fromBase64(encoded);
  if (bytes?.length !== 33) return null;
  const hashed = new Uint8Array([...encode(`${name}\n`), ...bytes]);
  const id = hex(new Uint8Array(await crypto.subtle.digest('SHA-256', hashed)).subarray(0, 4));
  const key = {
    name,
    keyId,
    type: bytes[0] ?? 0,
    x: bytes.slice(1),
    purpose: 'log',
    isCompromised: false,
    nbf: 0,
  };
  return id === keyId ? key : null;
}

/** Throws TypeError for a policy with a mistake; the message names the line. */
export async function readLogPolicy(text: string): Promise<LogPolicy> {
  const logs: NoteKey[] = [];
  const witnesses = new Map<string, NoteKey>();
  const rules = new Map<string, Rule>();
  const depths = new Map<Rule, number>();
  const members = new Set<string>();
  let quorum: Rule | null = null;
  for (const [at, line] of text.split('\n').entries()) {
    const [kind, ...words] = line.split(/[ \t]+/).filter((word) => word !== '');
    if (kind === undefined || kind.startsWith('#')) continue;
    const wrong = (why: string) => new TypeError(`policy, line ${at + 1}: ${why}`);
    const addRule = (name: string, rule: Rule) => {
      if (name === 'none' || rules.has(name)) throw wrong(`${name} is defined already`);
      rules.set(name, rule);
    };
    const addKey = async (vkey = '', type: number): Promise<NoteKey> => {
      const key = await noteKey(vkey);
      if (key?.type !== type) throw wrong('this is no vkey of an Ed25519 key for this line');
      const known = [...logs.filter(() => type === 1), ...(type === 4 ? witnesses.values() : [])];
      if (known.some(({ x }) => hex(x) === hex(key.x))) throw wrong('an earlier line has the same key');
      return key;
    };
    const [name = '', second = '', ...rest] = words;
    if (kind === 'log') logs.push(await addKey(name, 1));
    else if (kind === 'witness') {
      const key = await addKey(second, 4);
      addRule(name, (names) => names.has(name));
      witnesses.set(name, key);
    } else if (kind === 'group') {
      const of = rest.map((member) => {
        const rule = rules.get(member);
        if (rule === undefined || members.has(member))
          throw wrong(`${member} is unknown, or in a group already`);
        members.add(member);
        return rule;
      });
      const least = { any: 1, all: of.length }[second] ?? (/^[1-9]\d*$/.test(second) ? Number(second) : 0);
      if (least < 1 || least > of.length) throw wrong('a group has any, all or a number of its members');
      const group: Rule = (names) => of.filter((rule) => rule(names)).length >= least;
      depths.set(group, 1 + of.reduce((most, rule) => Math.max(most, depths.get(rule) ?? 0), 0));
      if ((depths.get(group) ?? 0) > groupDepthMax) throw wrong('groups lie too deep in groups');
      addRule(name, group);
    } else if (kind === 'quorum' && quorum === null && words.length === 1) {
      quorum = name === 'none' ? () => true : (rules.get(name) ?? null);
      if (quorum === null) throw wrong(`${name} is unknown`);
    } else throw wrong('it is none of log, witness, group and one quorum');
  }
  if (quorum === null) throw new TypeError('policy: it has no quorum');
  return { logs, witnesses, isQuorum: quorum };
}
