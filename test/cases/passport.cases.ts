import { atL1, block, type CaseData, passportLifeMs, permit } from './decision-case.ts';

/** The first check: is it a passport of ours, does it count now, is it of this world? */
export const passportCases: readonly CaseData[] = [
  { name: 'permits a passport as it was issued', want: permit(...atL1) },

  ...(
    [
      'empty',
      'no token at all',
      'truncated',
      'without its signature',
      'without its last part',
      'a fourth part',
      'a trailing byte',
      'a trailing newline',
      'padded',
      'spelt in another way',
      'alg none',
      'alg none with a signature',
      'HS256 with the public key as secret',
      'alg ES256',
      'another typ',
      'no kid',
      'a critical extension',
      'a payload that is no object',
      'nine KiB long',
    ] as const
  ).map((forgery) => ({
    name: `blocks as malformed a token with this done to it: ${forgery}`,
    forgery,
    want: block('passport_malformed', 'passport'),
  })),
  ...(['an unknown kid', 'signed by another service'] as const).map((forgery) => ({
    name: `blocks for its key a token with this done to it: ${forgery}`,
    forgery,
    want: block('passport_unknown_key', 'passport'),
  })),
  ...(
    [
      'signed by another service in our name',
      'with its own key in the header',
      'one more permission',
      'one bit of the signature',
      'a signature of zeros',
    ] as const
  ).map((forgery) => ({
    name: `blocks for its signature a token with this done to it: ${forgery}`,
    forgery,
    want: block('passport_signature_invalid', 'passport'),
  })),

  {
    name: 'blocks a passport that begins more than 60 s from now',
    sinceIssueMs: -60_001,
    want: { ...block('passport_not_yet_valid', 'passport'), retryable: true },
  },
  { name: 'permits a passport that begins 60 s from now', sinceIssueMs: -60_000, want: permit(...atL1) },
  {
    name: 'permits a passport that begins 59.999 s from now',
    sinceIssueMs: -59_999,
    want: permit(...atL1),
  },
  {
    name: 'permits a passport one millisecond before it expires',
    sinceIssueMs: passportLifeMs - 1,
    want: permit(...atL1),
  },
  {
    name: 'blocks a passport at the moment of its expiry',
    sinceIssueMs: passportLifeMs,
    want: { ...block('passport_expired', 'passport'), retryable: false },
  },
  {
    name: 'blocks a passport that has expired one second ago',
    sinceIssueMs: passportLifeMs + 1_000,
    want: block('passport_expired', 'passport'),
  },

  {
    name: 'blocks a revoked passport',
    circumstances: ['passport revoked'],
    want: { ...block('passport_revoked', 'passport'), retryable: false },
  },
  {
    name: 'blocks a suspended passport',
    circumstances: ['passport suspended'],
    want: block('passport_suspended', 'passport'),
  },
  {
    name: 'blocks a passport of a suspended account',
    passport: { issued_by: 'foreign' },
    circumstances: ['account suspended'],
    gate: { constraints: { trusted_issuers: ['*'] } },
    want: block('passport_suspended', 'passport'),
  },
  {
    name: 'blocks a passport whose key was compromised',
    circumstances: ['key compromised'],
    want: block('passport_unknown_key', 'passport'),
  },
  {
    name: 'blocks a test passport at a live gate',
    passport: { mode: 'test' },
    want: block('mode_mismatch', 'passport'),
  },
  {
    name: 'blocks a live passport at a test gate',
    mode: 'test',
    want: block('mode_mismatch', 'passport'),
  },
  {
    name: 'permits a test passport at a test gate',
    passport: { mode: 'test' },
    mode: 'test',
    want: permit(...atL1),
  },

  {
    name: 'says that it is expired of a passport that is also revoked',
    sinceIssueMs: passportLifeMs,
    circumstances: ['passport revoked'],
    want: block('passport_expired', 'passport'),
  },
  {
    name: 'says that the account is suspended of a test passport at a live gate',
    passport: { issued_by: 'foreign', mode: 'test' },
    circumstances: ['account suspended'],
    want: block('passport_suspended', 'passport'),
  },
];
