import { unreachable } from '../errors/assert.ts';
import type { PiiType } from '../model/constraints.ts';
import { findEmails } from './email.ts';
import { findIbans } from './iban.ts';
import { findIpAddresses } from './ip-address.ts';
import { findPaymentCards } from './payment-card.ts';
import { findPhones, type PhoneChecks } from './phone.ts';
import { mask, type Span } from './span.ts';
import { findSsns } from './us-ssn.ts';

export interface PersonalData extends Span {
  readonly type: PiiType;
}

/**
 * The spans of all personal data of the wanted types in a folded text, sorted and disjoint. `name`: the
 * member of this value, or empty. The detectors run in order of certainty, and a span belongs to the first
 * that claims it: digits of an IBAN are no card, even if IBANs are not wanted. Phone numbers, the least
 * certain, come last.
 */
export function findPersonalData(
  text: string,
  name: string,
  wanted: readonly PiiType[],
  checks: PhoneChecks,
): PersonalData[] {
  if (!mayHoldAny(text)) return nothing;
  const found: PersonalData[] = [];
  let rest = text.replace(markers, (marker) => '\0'.repeat(marker.length));
  for (const type of inOrder) {
    if (type === 'phone' && !wanted.includes(type)) continue;
    const spans = detect(type, rest, name, checks);
    if (spans.length === 0) continue;
    rest = mask(rest, spans);
    if (wanted.includes(type)) for (const { start, end } of spans) found.push({ start, end, type });
  }
  return found.sort((a, b) => a.start - b.start);
}

const nothing: PersonalData[] = [];
const inOrder: readonly PiiType[] = ['email', 'ip_address', 'iban', 'payment_card', 'us_ssn', 'phone'];

/** The replacement of personal data in a copy. No detector matches it. */
export const markerOf = (type: PiiType): string => `[redacted:${type}]`;
const markers = /\[redacted:[a-z_]{1,16}\]/g;

function detect(type: PiiType, text: string, name: string, checks: PhoneChecks): Span[] {
  switch (type) {
    case 'email':
      return findEmails(text);
    case 'ip_address':
      return findIpAddresses(text, name);
    case 'iban':
      return findIbans(text);
    case 'payment_card':
      return findPaymentCards(text);
    case 'us_ssn':
      return findSsns(text, name);
    case 'phone':
      return findPhones(text, name, checks);
    default:
      return unreachable(type);
  }
}

/**
 * The fewest digits of a phone number, of an IPv4 address; an IPv6 address has two colons, an email an `@` or
 * `%40`. Most texts have none of these.
 */
function mayHoldAny(text: string): boolean {
  let digits = 0;
  let colons = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0x30 && code <= 0x39) digits += 1;
    else if (code === 0x3a) colons += 1;
    else if (code === 0x40 || (code === 0x25 && text.startsWith('40', at + 1))) return true;
  }
  return digits >= 4 || (colons >= 2 && digits >= 1);
}
