import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { renderPublicKey } from '../../shared/crypto/agent-key.ts';
import { nobleEd25519 } from '../../shared/crypto/ed25519-noble.ts';
import { makeId } from '../../shared/model/ids.ts';
import type { PassportClaims } from '../../shared/model/passport-claims.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis, UnixSeconds } from '../../shared/model/time.ts';
import { parseConstraints, renderConstraints } from '../../shared/wire/api/constraints.ts';
import { canonicalName } from '../../shared/wire/api/email.ts';
import { parsePassportClaims, renderPassportClaims } from '../../shared/wire/api/passport-claims.ts';
import { grapheme } from '../support/base/arbitrary-text.ts';
import { runs } from '../support/base/runs.ts';

const id = <P extends Parameters<typeof makeId>[0]>(prefix: P) =>
  fc
    .uint8Array({ minLength: 10, maxLength: 10 })
    .map((bytes) => makeId(prefix, 1_800_000_000_000 as UnixMillis, bytes));

/** Dollars as a person or a program writes them: the micro-dollars are whole, the double need not look it. */
const usd = fc.integer({ min: 0, max: 1e15 }).map((micro) => micro / 1e6);
const domain = fc.oneof(
  fc.domain(),
  fc.domain().map((name) => `*.${name}`),
  fc.ipV4(),
);
const spend = { per_transaction_usd: usd };
const optional = { requiredKeys: [] };

const conditions = fc.uniqueArray(
  fc.record(
    {
      id: fc.stringMatching(/^[a-z0-9-]{1,64}$/),
      require: fc.constantFrom('true', "request.a.startsWith('/b/')", 'passport.owner == user'),
      permissions: fc.option(fc.uniqueArray(fc.constantFrom('orders:*', 'a:b'), { minLength: 1 })),
      otherwise: fc.constantFrom('block', 'approve'),
      message: fc.option(fc.constantFrom('x', 'Ask first.')),
    },
    { requiredKeys: ['id', 'require'] },
  ),
  { selector: ({ id: name }) => name, maxLength: 4 },
);

const passportConstraints = fc.record(
  {
    conditions,
    spend_limits: fc.record(spend, optional),
    allowed_domains: fc.array(domain, { maxLength: 5 }),
  },
  optional,
);

const gateConstraints = fc.record(
  {
    conditions,
    spend_limits: fc.record(
      {
        ...spend,
        per: fc.constantFrom('gate', 'passport'),
        alert_at: fc.double({ min: 1e-9, max: 1, noNaN: true }),
      },
      optional,
    ),
    allowed_domains: fc.array(domain, { maxLength: 5 }),
    trusted_issuers: fc.oneof(fc.constant(['*']), fc.array(id('iss'), { maxLength: 3 })),
    approvals: fc.record(
      {
        expires_in_s: fc.integer({ min: 1, max: 604_800 }),
        approvers: fc.record(
          {
            roles: fc.array(fc.constantFrom('owner', 'admin', 'approver'), { minLength: 1, maxLength: 4 }),
            users: fc.array(id('usr'), { minLength: 1, maxLength: 3 }),
            count: fc.integer({ min: 1, max: 5 }),
            not_requester: fc.boolean(),
            not_owner: fc.constant(false),
            independent: fc.boolean(),
          },
          optional,
        ),
        passkey: fc.boolean(),
      },
      optional,
    ),
    proof_of_possession: fc.constantFrom<unknown>(
      'off',
      'required',
      { mode: 'required' },
      { mode: 'required', replay: 'exact' },
    ),
  },
  optional,
);

const gate = (value: unknown) => parseConstraints(value, { param: 'constraints', of: 'gate' });
const passport = (value: unknown) => parseConstraints(value, { param: 'constraints', of: 'passport' });

describe('constraints', () => {
  it('are the same after they were rendered and parsed again, for gates', () => {
    fc.assert(
      fc.property(gateConstraints, (given) => {
        const constraints = gate(given);
        expect(gate(renderConstraints(constraints))).toEqual(constraints);
      }),
      { numRuns: runs({ short: 200, long: 100_000 }) },
    );
  });

  it('are the same after they were rendered and parsed again, for passports', () => {
    fc.assert(
      fc.property(passportConstraints, (given) => {
        const constraints = passport(given);
        expect(passport(renderConstraints(constraints))).toEqual(constraints);
      }),
      { numRuns: runs({ short: 200, long: 100_000 }) },
    );
  });
});

const ed25519 = nobleEd25519();
const publicKey = renderPublicKey(ed25519.signer(new Uint8Array(32).fill(5)).publicKey);
const seconds = fc.integer({ min: 0, max: 253_402_300_799 }).map((time) => time as UnixSeconds);
const permission = fc
  .tuple(fc.stringMatching(/^[a-z0-9_.-]{1,20}$/), fc.stringMatching(/^(?:[a-z0-9_.-]{1,20}|\*)$/))
  .map(([area, action]) => `${area}:${action}` as PermissionKey);

const claims: fc.Arbitrary<PassportClaims> = fc.record({
  ...{ passportId: id('pass'), issuerId: id('iss'), accountId: id('acct') },
  issuerDomain: fc.option(fc.domain()),
  mode: fc.constantFrom('live', 'test'),
  agentId: fc.string({ minLength: 1, maxLength: 64 }),
  agentName: fc.string({ minLength: 1, maxLength: 64, unit: grapheme }).filter((name) => name.length <= 200),
  permissions: fc.array(permission, { maxLength: 8 }),
  trustTier: fc.constantFrom('L1', 'L2', 'L3'),
  constraints: passportConstraints.map(passport),
  hasWallet: fc.boolean(),
  ...{ issuedAtS: seconds, notBeforeS: seconds, expiresAtS: fc.option(seconds) },
  publicKey: fc.constant(publicKey),
  owner: fc.option(
    fc
      .string({ minLength: 1, maxLength: 64, unit: grapheme })
      .map(canonicalName)
      .filter((name) => name.length <= 200),
  ),
  user: fc.option(
    fc
      .string({ minLength: 1, maxLength: 64, unit: grapheme })
      .map(canonicalName)
      .filter((name) => name.length <= 200),
  ),
});

describe('the claims of a passport', () => {
  it('are the same after they were rendered, written as JSON, and parsed again', () => {
    fc.assert(
      fc.property(claims, (given) => {
        const payload: Record<string, unknown> = JSON.parse(JSON.stringify(renderPassportClaims(given)));
        expect(parsePassportClaims(payload)).toEqual(given);
      }),
      { numRuns: runs({ short: 200, long: 100_000 }) },
    );
  });

  it('are none where an expression is faulty, or there is a constraint that is not known', () => {
    const [given] = fc.sample(claims, 1);
    const payload = renderPassportClaims(given as PassportClaims);
    const withMore = (more: object) =>
      parsePassportClaims({ ...payload, constraints: { ...payload.constraints, ...more } });
    expect(withMore({ conditions: [{ id: 'a', require: 'request.b == 1' }] })).not.toBeNull();
    expect(withMore({ conditions: [{ id: 'a', require: 'request.b == ' }] })).toBeNull();
    expect(withMore({ conditionals: [] })).toBeNull();
  });

  it('are read or refused, whatever the payload', () => {
    fc.assert(
      fc.property(claims, fc.string(), fc.jsonValue(), (given, name, value) => {
        const payload = { ...renderPassportClaims(given), [name]: value };
        expect(() => parsePassportClaims(payload)).not.toThrow();
      }),
      { numRuns: runs({ short: 200, long: 100_000 }) },
    );
  });

  it('are refused without any one that is required, and with any of them null', () => {
    fc.assert(
      fc.property(claims, (given) => {
        const payload: Record<string, unknown> = renderPassportClaims(given);
        for (const name of Object.keys(payload)) {
          if (name === 'exp' || name === 'iss_domain' || name === 'owner' || name === 'user') continue;
          const { [name]: _left, ...rest } = payload;
          expect(parsePassportClaims(rest)).toBeNull();
          expect(parsePassportClaims({ ...payload, [name]: null })).toBeNull();
        }
      }),
      { numRuns: runs({ short: 50, long: 5_000 }) },
    );
  });
});
