/**
 * Room `shared/pii`: personal data in requests, found by rules: one file per kind, `redact-request.ts`, and
 * `permission-on-record.ts` for what a record may show.
 */

import type { PiiFinding } from '../model/attestation.ts';
import { type PiiType, piiTypes } from '../model/constraints.ts';
import { limits } from '../model/limits.ts';
import type { PiiScan } from '../model/pii.ts';
import { decodings, isEncoded } from './decode-text.ts';
import { findPersonalData } from './find-personal-data.ts';
import { foldText } from './fold-text.ts';
import type { PhoneChecks } from './phone.ts';

/**
 * Finds personal data of these types in every string of `request`, the names of members included (contract
 * §7). A name's finding points at the object it is a name in. Numbers are no strings. Pure, synchronous,
 * linear in the length of the text, and never throws; holds and returns no value, and no pointer names one:
 * where a pointer would be too long, hold U+0000 or pass through a name that is personal data itself, it
 * stops at the object before, and where all of them would be longer than limits.piiPointersJsonCharsMax, at
 * the request itself. The scan is incomplete beyond limits.piiScanCharsMax of text, counted as sent
 * or after NFKC, whichever is more, and once more what of it is decoded, each time; where it is encoded more
 * often than `decodings` follows; beyond limits.piiPhoneChecksMax; and below limits.jsonDepthMax.
 */
export function scanPii(
  request: Readonly<Record<string, unknown>>,
  types: readonly PiiType[],
  bounds: ScanBounds = ofRequests,
): PiiScan {
  const scan: Scan = {
    wanted: piiTypes.filter((type) => types.includes(type)),
    findings: new Map(),
    path: [],
    charsLeft: bounds.charsMax,
    depthMax: bounds.depthMax,
    pointerCharsLeft: limits.piiPointersJsonCharsMax,
    isCut: false,
    checks: { left: phoneChecksFor(bounds), wereTooFew: false },
  };
  scanValue(scan, request, '');
  return {
    findings: [...scan.findings.values()],
    isComplete: !scan.isCut && !scan.checks.wereTooFew,
  };
}

/** How much is scanned at most. */
export interface ScanBounds {
  readonly charsMax: number;
  readonly depthMax: number;
}

const ofRequests: ScanBounds = { charsMax: limits.piiScanCharsMax, depthMax: limits.jsonDepthMax };

/** As many for each character as a request has. */
const phoneChecksFor = ({ charsMax }: ScanBounds): number =>
  Math.ceil((limits.piiPhoneChecksMax * charsMax) / limits.piiScanCharsMax);

interface Scan {
  readonly wanted: readonly PiiType[];
  /** By type and pointer. */
  readonly findings: Map<string, PiiFinding>;
  /** Path of the scanned value, outermost first. */
  readonly path: (string | number)[];
  charsLeft: number;
  readonly depthMax: number;
  /** Remaining characters of pointers, as JSON. */
  pointerCharsLeft: number;
  /** The scan is incomplete. */
  isCut: boolean;
  readonly checks: PhoneChecks;
}

/**
 * `name`: the nearest member around the value. Recursion ends at limits.jsonDepthMax, and with the budget of
 * text.
 */
function scanValue(scan: Scan, value: unknown, name: string): void {
  if (typeof value === 'string') scanText(scan, value, name);
  if (typeof value !== 'object' || value === null || scan.isCut) return;
  if (scan.path.length >= scan.depthMax) {
    scan.isCut = true;
    return;
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) scanMember(scan, index, value[index], name);
    return;
  }
  for (const [key, member] of Object.entries(value)) {
    scanText(scan, key, '');
    scanMember(scan, key, member, key);
  }
}

function scanMember(scan: Scan, step: string | number, value: unknown, name: string): void {
  scan.path.push(step);
  scanValue(scan, value, name);
  scan.path.pop();
}

function scanText(scan: Scan, text: string, name: string): void {
  const folded = scanForm(scan, text, name);
  let last = '';
  for (const decoded of decodings(folded)) {
    scanForm(scan, decoded, name);
    last = decoded;
  }
  scan.isCut ||= isEncoded(last);
}

/** Returns the scanned part. */
function scanForm(scan: Scan, text: string, name: string): string {
  // The first text beyond the budget is scanned as far as it fits, for the mode that permits it.
  const folded = foldText(text.slice(0, scan.charsLeft));
  scan.isCut ||= Math.max(text.length, folded.length) > scan.charsLeft;
  const scanned = folded.slice(0, scan.charsLeft);
  scan.charsLeft = Math.max(0, scan.charsLeft - Math.max(text.length, folded.length));
  // Counting goes on with a full list: completeness must not depend on it.
  if (scan.findings.size >= limits.piiFindingsMax) return scanned;
  for (const type of typesIn(scan, scanned, name)) addFinding(scan, type);
  return scanned;
}

function typesIn({ wanted, checks }: Scan, text: string, name: string): PiiType[] {
  const found = findPersonalData(text, name, wanted, checks);
  return found.length === 0 ? [] : wanted.filter((type) => found.some((one) => one.type === type));
}

function addFinding(scan: Scan, type: PiiType): void {
  const { findings, path } = scan;
  const exact = pointerTo(path);
  if (findings.size >= limits.piiFindingsMax || findings.has(`${type}${exact}`)) return;
  const chars = JSON.stringify(exact).length;
  const hasRoom = chars <= scan.pointerCharsLeft;
  if (hasRoom) scan.pointerCharsLeft -= chars;
  const pointer = hasRoom ? exact : '';
  findings.set(`${type}${pointer}`, { pointer, type });
}

/** RFC 6901, cut before a name that must not appear. */
function pointerTo(path: readonly (string | number)[]): string {
  let pointer = '';
  for (const step of path) {
    const longer = `${pointer}/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`;
    if (longer.length > limits.piiPointerCharsMax || !mayContain(step)) break;
    pointer = longer;
  }
  return pointer;
}

/** All types: data of types that this gate does not scan for must not enter its records either. */
function mayContain(step: string | number): boolean {
  if (typeof step === 'number') return true;
  const checks = { left: limits.piiPhoneChecksMax, wereTooFew: false };
  const folded = foldText(step);
  return (
    step.isWellFormed() &&
    !step.includes('\0') &&
    [folded, ...decodings(folded)].every(
      (form) => findPersonalData(foldText(form), '', piiTypes, checks).length === 0,
    )
  );
}
