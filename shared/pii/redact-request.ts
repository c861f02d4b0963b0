import { assert } from '../errors/assert.ts';
import type { PiiFinding } from '../model/attestation.ts';
import type { PiiType } from '../model/constraints.ts';
import { limits } from '../model/limits.ts';
import type { PiiScan } from '../model/pii.ts';
import { decodings } from './decode-text.ts';
import { findPersonalData, markerOf } from './find-personal-data.ts';
import { foldText } from './fold-text.ts';
import { scanPii } from './scan-pii.ts';

export interface RedactedRequest {
  /** With `[redacted:<type>]` for each finding; the request itself without findings. */
  readonly request: Readonly<Record<string, unknown>>;
  /** The findings of the scan, at most limits.piiFindingsMax; the copy replaces all. */
  readonly redactions: readonly PiiFinding[];
}

/**
 * A copy of `request` without its personal data of these types, also in member names; the request is
 * unchanged. A text with a replacement is returned folded (`foldText`), one with encoded findings only is
 * replaced by the mark, others are unchanged. A scan of the copy finds nothing; the copy may be longer, and
 * then too long for a scan. Throws InvariantError after an incomplete scan: the rest is unknown, so such a
 * request is blocked and not redacted. `scan`: passed if the request was already scanned for these types.
 */
export function redactRequest(
  request: Readonly<Record<string, unknown>>,
  types: readonly PiiType[],
  { findings, isComplete }: PiiScan = scanPii(request, types),
): RedactedRequest {
  assert(isComplete, 'only a request that was scanned to its end is redacted');
  if (findings.length === 0) return { request, redactions: findings };
  return { request: redactMembers(request, types), redactions: findings };
}

function redactValue(value: unknown, name: string, types: readonly PiiType[]): unknown {
  if (typeof value === 'string') return redactText(value, name, types);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item: unknown) => redactValue(item, name, types));
  return redactMembers(value, types);
}

/** If two names become equal the second gets a number, so no member is lost. */
function redactMembers(members: object, types: readonly PiiType[]): Readonly<Record<string, unknown>> {
  const entries = Object.entries(members);
  const taken = new Set(entries.map(([name]) => name));
  const copies = new Map<string, number>();
  const renamed = entries.map(([name, value]): [string, unknown] => {
    const redacted = redactText(name, '', types);
    const clean = redactValue(value, name, types);
    if (redacted === name) return [name, clean];
    // A member's name is context for its value, and the name has changed.
    return [freeName(redacted, taken, copies), redactValue(clean, redacted, types)];
  });
  // Makes own members, `__proto__` included.
  return Object.fromEntries(renamed);
}

function freeName(name: string, taken: Set<string>, copies: Map<string, number>): string {
  let copy = copies.get(name) ?? 1;
  let free = name;
  while (taken.has(free)) {
    copy += 1;
    free = `${name}_${copy}`;
  }
  copies.set(name, copy);
  taken.add(free);
  return free;
}

/**
 * A removal joins its neighbours, which together may match again, so the scan is repeated up to this often.
 */
const looksMax = 4;

function redactText(text: string, name: string, types: readonly PiiType[]): string {
  let clean = text;
  for (let look = 0; look < looksMax; look += 1) {
    const folded = foldText(clean);
    const checks = { left: limits.piiPhoneChecksMax, wereTooFew: false };
    const found = findPersonalData(folded, name, types, checks);
    const [first] = found;
    if (first === undefined) return hiddenIn(folded, name, types) ?? clean;
    clean = look === looksMax - 1 ? markerOf(first.type) : replaced(folded, found);
  }
  return clean;
}

/**
 * The mark for a text with encoded personal data only; null: none. Its place in the original text is unknown,
 * so the whole text is replaced.
 */
function hiddenIn(folded: string, name: string, types: readonly PiiType[]): string | null {
  const checks = { left: limits.piiPhoneChecksMax, wereTooFew: false };
  for (const decoded of decodings(folded)) {
    const [first] = findPersonalData(foldText(decoded), name, types, checks);
    if (first !== undefined) return markerOf(first.type);
  }
  return null;
}

function replaced(text: string, found: ReturnType<typeof findPersonalData>): string {
  let clean = '';
  let done = 0;
  for (const { start, end, type } of found) {
    clean += text.slice(done, start) + markerOf(type);
    done = end;
  }
  return clean + text.slice(done);
}
