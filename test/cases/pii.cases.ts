import { atL1, block, type CaseData, permit, suspend } from './decision-case.ts';

const order = { permission_key: 'orders:create' };
const withPii = [...atL1, 'pii_controls'] as const;
const inMode = (mode: string, more: object = {}) => ({ constraints: { pii_controls: { mode }, ...more } });

const clean = { ...order, note: 'leave it at the door', count: 3 };
const dirty = { ...order, note: 'ask jane.doe@example.com', items: [{ text: 'card 4111 1111 1111 1111' }] };
const found = [
  { pointer: '/note', type: 'email' },
  { pointer: '/items/0/text', type: 'payment_card' },
];
/** More text than is scanned. */
const long = { ...order, note: 'all is well. '.repeat(1_400) };

/** Personal data in a request: noted, taken out, or kept out. */
export const piiCases: readonly CaseData[] = [
  {
    name: 'permits a request without personal data, log_only',
    gate: inMode('log_only'),
    request: clean,
    want: permit(...withPii),
  },
  {
    name: 'permits a request without personal data, and answers no copy of it',
    gate: inMode('redact'),
    request: clean,
    want: permit(...withPii),
  },
  {
    name: 'permits a request without personal data, block',
    gate: inMode('block'),
    request: clean,
    want: permit(...withPii),
  },
  {
    name: 'notes personal data and permits them',
    gate: inMode('log_only'),
    request: dirty,
    want: { ...permit(...withPii), pii: found },
  },
  {
    name: 'answers a copy without the personal data',
    gate: inMode('redact'),
    request: dirty,
    want: {
      ...permit(...withPii),
      pii: found,
      request_redacted: {
        ...order,
        note: 'ask [redacted:email]',
        items: [{ text: 'card [redacted:payment_card]' }],
      },
    },
  },
  {
    name: 'blocks personal data, and says where they stand',
    gate: inMode('block'),
    request: dirty,
    want: { ...block('pii_detected', ...withPii), pii: found, retryable: false },
  },
  {
    name: 'looks for the types that are named, and for no others',
    gate: { constraints: { pii_controls: { mode: 'block', types: ['iban', 'us_ssn'] } } },
    request: dirty,
    want: permit(...withPii),
  },
  {
    name: 'finds personal data in the name of a member, and points at what it is a name in',
    gate: inMode('block'),
    request: { ...order, people: { 'jane.doe@example.com': 1 } },
    want: { ...block('pii_detected', ...withPii), pii: [{ pointer: '/people', type: 'email' }] },
  },
  {
    name: 'notes that a text was longer than what is scanned',
    gate: inMode('log_only'),
    request: long,
    want: { ...permit(...withPii), pii: [{ pointer: '', type: 'unscanned' }] },
  },
  {
    name: 'blocks a text that is longer than what is scanned, redact',
    gate: inMode('redact'),
    request: long,
    want: block('pii_detected', ...withPii),
  },
  {
    name: 'blocks a text that is longer than what is scanned, block',
    gate: inMode('block'),
    request: long,
    want: block('pii_detected', ...withPii),
  },
  {
    name: 'does not look for personal data where nobody asked for it',
    request: dirty,
    want: permit(...atL1),
  },
  {
    name: 'looks at the domain before it looks for personal data',
    gate: inMode('block', { allowed_domains: ['api.example.com'] }),
    request: dirty,
    want: block('domain_missing', ...atL1, 'domain_allowlist'),
  },
  {
    name: 'says that there are personal data before it says that the money is spent',
    gate: inMode('block', { spend_limits: { per_transaction_usd: 1 } }),
    request: { ...dirty, amount: 2 },
    want: { ...block('pii_detected', ...withPii), pii: found },
  },
  {
    name: 'notes personal data also where a later check blocks, and answers no copy',
    gate: inMode('redact', { spend_limits: { per_transaction_usd: 1 } }),
    request: { ...dirty, amount: 2 },
    want: {
      ...block('spend_limit_exceeded', ...withPii, 'spend_limit'),
      pii: found,
      limit: 1,
      requested: 2,
    },
  },
  {
    name: 'notes personal data in a request that waits, and answers no copy',
    gate: inMode('redact', { approvals: { permissions: ['orders:create'] } }),
    request: dirty,
    want: { ...suspend(...withPii, 'approval'), pii: found },
  },
  {
    name: 'answers the copy once the request was approved',
    gate: inMode('redact', { approvals: { permissions: ['orders:create'] } }),
    request: { ...order, note: 'ask jane.doe@example.com' },
    approval: { became: 'approved' },
    want: {
      ...permit(...withPii, 'approval'),
      pii: [{ pointer: '/note', type: 'email' }],
      request_redacted: { ...order, note: 'ask [redacted:email]' },
    },
  },
];
