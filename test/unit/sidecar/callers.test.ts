import { describe, expect, it } from 'vitest';
import { hashApiKey, makeApiKey } from '../../../shared/crypto/api-key.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { Scope } from '../../../shared/model/scopes.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import { authenticator, type Caller } from '../../../sidecar/decide/callers.ts';

const random = systemRandom();
const now = Date.UTC(2026, 0, 1) as UnixMillis;
const newKey = () => makeApiKey('live', random.bytes(64));

/** Keys as a replica would know them; a test may change them at any moment. */
function setUp(keys: Readonly<Record<string, readonly Scope[]>>) {
  const callers = new Map<string, Caller>();
  let reads = 0;
  let looks = 0;
  const known = {
    caller: (hash: string) => {
      looks++;
      return callers.get(hash) ?? null;
    },
    isAccountSuspended: false,
    /** Null: it may have changed since it was last asked. */
    fixedVersion: null as number | null,
    get version() {
      return known.fixedVersion ?? ++reads;
    },
  };
  for (const [key, scopes] of Object.entries(keys)) {
    callers.set(hashApiKey(key), { keyId: random.newId('key', now), mode: 'live', scopes });
  }
  const authenticate = authenticator(known);
  const outcome = (authorization: string, scope: Scope = 'enforcement:check', nowMs = now): string => {
    try {
      authenticate(authorization, scope, nowMs);
      return 'let in';
    } catch (error) {
      if (error instanceof ApiError) return error.code;
      throw error;
    }
  };
  return { callers, known, outcome, looks: () => looks };
}

describe('authentication of callers', () => {
  const key = newKey();

  it('accepts a key with the scope, in any case of the scheme', () => {
    const { outcome } = setUp({ [key]: ['enforcement:check'] });
    expect([`Bearer ${key}`, `bearer ${key}`, `BEARER  ${key}`].map((header) => outcome(header))).toEqual([
      'let in',
      'let in',
      'let in',
    ]);
  });

  it.each<readonly [Scope]>([['admin:*'], ['gates:manage']])(
    'lets a key in whose scope %s implies the one needed',
    (scope) => {
      expect(setUp({ [key]: [scope] }).outcome(`Bearer ${key}`)).toBe('let in');
    },
  );

  it('refuses a key without the scope, the first time and the second', () => {
    const { outcome } = setUp({ [key]: ['gates:read', 'sidecars:connect'] });
    expect([outcome(`Bearer ${key}`), outcome(`Bearer ${key}`)]).toEqual([
      'insufficient_scope',
      'insufficient_scope',
    ]);
  });

  it('refuses anything but a known key', () => {
    const { outcome } = setUp({ [key]: ['admin:*'] });
    const wrongChecksum = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0');
    const wrong = [
      '',
      'Bearer',
      'Bearer ',
      key,
      `Basic ${key}`,
      `Bearer ${newKey()}`,
      `Bearer ${wrongChecksum}`,
    ];
    expect(
      [...wrong, `Bearer ${key} `, `Bearer ${key}, Bearer ${key}`].map((header) => outcome(header)),
    ).toEqual(Array.from({ length: wrong.length + 2 }, () => 'unauthorized'));
  });

  it('forgets a key at once that is deleted after it was let in', () => {
    const { callers, outcome } = setUp({ [key]: ['admin:*'] });
    expect(outcome(`Bearer ${key}`)).toBe('let in');
    callers.clear();
    expect(outcome(`Bearer ${key}`)).toBe('unauthorized');
  });

  it('looks once at the same header, as long as state, time and scope are the same', () => {
    const other = newKey();
    const { callers, known, outcome, looks } = setUp({ [key]: ['enforcement:check'], [other]: ['admin:*'] });
    known.fixedVersion = 1;
    expect([1, 2, 3].map(() => outcome(`Bearer ${key}`))).toEqual(['let in', 'let in', 'let in']);
    expect(looks()).toBe(1);
    expect(outcome(`Bearer ${key}`, 'admin:*')).toBe('insufficient_scope');
    expect(outcome(`Bearer ${newKey()}`)).toBe('unauthorized');
    expect(outcome(`Bearer ${other}`)).toBe('let in');
    const before = looks();
    callers.clear();
    // In the next millisecond it may have expired, and a new version may lack it.
    expect(outcome(`Bearer ${other}`, 'enforcement:check', (now + 1) as UnixMillis)).toBe('unauthorized');
    known.fixedVersion = 2;
    expect(outcome(`Bearer ${other}`)).toBe('unauthorized');
    expect(looks()).toBe(before + 2);
  });

  it('refuses every key of a suspended account, and says so to its own keys only', () => {
    const { known, outcome } = setUp({ [key]: ['admin:*'] });
    known.isAccountSuspended = true;
    expect([outcome(`Bearer ${key}`), outcome(`Bearer ${newKey()}`)]).toEqual([
      'account_suspended',
      'unauthorized',
    ]);
  });
});
