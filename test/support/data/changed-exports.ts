import { carriedNames } from '../../../shared/wire/evidence/carried-members.ts';
import { chance } from '../base/chance.ts';

/** Exports, changed as if by a service that decides or remembers otherwise. */

type Line = Record<string, unknown>;
type Path = readonly string[];

/** By the kind of a line, what is changed there. */
const members: Readonly<Record<string, readonly string[]>> = {
  record: [
    ...['amount_micro_usd', 'approval_id', 'asserted', 'constraints_evaluated', 'decision'],
    ...['domain', 'gate_id', 'hold_expires_at', 'passport_id', 'permission_key', 'pii'],
    ...['policy_hash', 'proof', 'reason', 'source', 'source_account', 'state_age_ms', 'test'],
    ...['timestamp', 'trust_level', 'wallet_id', 'wallet_path'],
  ],
  policy: ['catalog_hash', 'trust_level', ...Array<string>(6).fill('constraints')],
  catalog: ['permissions'],
  passport: [
    ...['account_id', 'expires_at', 'issued_at', 'issuer_id', 'owner', 'permissions'],
    ...['status_changes', 'status_changes_omitted', 'token_hash', 'trust_tier'],
    ...Array<string>(4).fill('constraints'),
  ],
  approval: ['created_at', 'gate_id', 'passport_id'],
  standing: ['each_micro_usd', 'ended_at', 'expires_at', 'gate_id', 'passport_id', 'permission_key'],
};

/** What records from before 2026-11-27 lack. */
const ofForm2 = [
  ...['approval_id', 'asserted', 'domain', 'hold_expires_at', 'policy_hash', 'proof', 'state_age_ms'],
  ...['trust_level', 'wallet_id', 'wallet_path', ...carriedNames],
];

const together: Readonly<Record<string, readonly string[]>> = {
  decision: ['decision', 'reason', 'resolution', 'refers_to'],
  reason: ['decision', 'reason', 'resolution', 'refers_to', 'constraints_evaluated'],
  gate_id: ['gate_id', 'policy_hash', 'trust_level'],
};

const kindOf = (line: Line): string => {
  if ('resolution' in line) return 'record';
  const kind = Object.keys(line)[0] ?? '';
  return kind === 'approval' && 'total_micro_usd' in bodyOf(line) ? 'standing' : kind;
};
/** What the members above are members of. */
const bodyOf = (line: Line): Line => {
  if ('resolution' in line) return line;
  const [content] = Object.values(line) as { body?: Line }[];
  return content?.body ?? (content as Line);
};

/** Around these the rules change their answer. */
const shiftsMs = [-86_400_000, -60_001, -60_000, -1, 1, 59_999, 60_000, 60_001, 86_400_000];
const isTime = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value);

/**
 * Lines of an export that are changed in `times` places, or left out. Each value is one that another line of
 * its kind has in this place, or a time or a number near it.
 */
export function changed(lines: readonly Line[], seed: number, times: number): readonly Line[] {
  const { below } = chance(seed);
  const one = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  const copy = structuredClone(lines) as (Line | null)[];
  const places = lines.flatMap((line, place) => (members[kindOf(line)] === undefined ? [] : [place]));
  const byKind = groupsOf(lines, places);

  const another = (kind: string, path: Path): unknown =>
    structuredClone(
      path.reduce<unknown>(
        (value, name) => (value as Line | undefined)?.[name],
        bodyOf(lines[one(byKind.get(kind) ?? [])] as Line),
      ),
    );
  const nearby = (value: unknown): unknown => {
    if (isTime(value)) return new Date(Date.parse(value) + one(shiftsMs)).toISOString();
    if (typeof value === 'number') return one([0, value + 1, Math.max(0, value - 1), value * 2, value * 4]);
    return value;
  };
  /** What belongs together in a record. */
  const changeRecord = (record: Line, name: string): void => {
    const other = bodyOf(lines[one(byKind.get('record') ?? [])] as Line);
    const names = together[name] ?? [name];
    if (name === 'passport_id') record['passport_id'] = null;
    else if (names.length === 1) change('record', record, [name]);
    else for (const each of names) if (each in other) record[each] = structuredClone(other[each]);
  };
  const change = (kind: string, target: Line, path: Path): void => {
    const name = path.at(-1) ?? '';
    const value = target[name];
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (isObject && below(3) > 0) {
      const given = another(kind, path);
      const names = [...Object.keys(value), ...Object.keys(given ?? {})];
      if (names.length > 0) {
        change(kind, value as Line, [...path, one(names)]);
        return;
      }
    }
    const next = below(2) === 0 ? nearby(value) : another(kind, path);
    if (next !== undefined) target[name] = next;
    else if (path.length > 1) delete target[name];
  };

  for (let i = 0; i < times; i++) {
    const kind = one([...byKind.keys(), 'record', 'record']);
    const place = one(byKind.get(kind) ?? []);
    const line = copy[place];
    if (line === undefined || line === null) continue;
    if (below(20) === 0) copy[place] = null;
    else if (kind === 'record' && below(40) === 0) for (const name of ofForm2) delete line[name];
    else {
      const name = one(members[kind] ?? []);
      if (!(name in bodyOf(line))) continue;
      if (kind === 'record') changeRecord(line, name);
      else change(kind, bodyOf(line), [name]);
    }
  }
  return copy.filter((line) => line !== null);
}

function groupsOf(lines: readonly Line[], places: readonly number[]): ReadonlyMap<string, readonly number[]> {
  const groups = new Map<string, number[]>();
  for (const place of places) {
    const kind = kindOf(lines[place] as Line);
    groups.set(kind, [...(groups.get(kind) ?? []), place]);
  }
  return groups;
}
