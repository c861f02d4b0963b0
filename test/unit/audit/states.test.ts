import { describe, expect, it } from 'vitest';
import { auditStates } from '../../../shared/audit/states.ts';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { textHash } from '../../../shared/crypto/content-hash.ts';
import { limits } from '../../../shared/model/limits.ts';

const created = (after: Readonly<Record<string, unknown>>) => auditStates({ before: null, after })?.after;

describe('the states of an audit entry', () => {
  it('hold only what differs, with what came and what went', () => {
    const before = { name: 'a', limits: { day: 1 }, same: [1, { x: null }], gone: 1 };
    const after = { name: 'b', limits: { day: 2 }, same: [1, { x: null }], come: 2 };
    expect(auditStates({ before, after })).toEqual({
      before: { name: 'a', limits: { day: 1 }, gone: 1 },
      after: { name: 'b', limits: { day: 2 }, come: 2 },
    });
  });

  it('hold all of a created or deleted resource', () => {
    expect(auditStates({ before: null, after: { a: 1 } })).toEqual({ before: null, after: { a: 1 } });
    expect(auditStates({ before: { a: 1 }, after: null })).toEqual({ before: { a: 1 }, after: null });
  });

  it('are none if nothing differs, in any order of members', () => {
    expect(
      auditStates({ before: { a: 1, b: { c: 1, d: 2 } }, after: { b: { d: 2, c: 1 }, a: 1 } }),
    ).toBeNull();
  });

  it('hide what has the name or the look of a secret, at any depth', () => {
    const jws = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl';
    const hidden = created({
      key: 'short',
      metadata: { secret: { a: 1 }, jwt: null, list: [{ token: 'x' }, 'ed25519_private:AAAA'] },
      note: `use at_live_${'a'.repeat(36)} or whsec_c2VjcmV0 or ${jws}`,
      [`at_test_${'b'.repeat(36)}`]: 1,
    });
    expect(hidden).toEqual({
      key: '[redacted]',
      metadata: { secret: '[redacted]', jwt: null, list: [{ token: '[redacted]' }, '[redacted]'] },
      note: 'use [redacted] or [redacted] or [redacted]',
      '[redacted]': 1,
    });
  });

  it('leave alone what only resembles one', () => {
    const state = {
      key_id: 'key_01m7w8f9hxqrdyfq7vmqreqg36',
      prefix: 'at_live_abcd',
      scopes: ['keys:manage'],
      x: 'eyJ',
    };
    expect(created(state)).toEqual(state);
  });

  it('show a change of something that is hidden', () => {
    expect(auditStates({ before: { secret: 'a' }, after: { secret: 'b' } })).toEqual({
      before: { secret: '[redacted]' },
      after: { secret: '[redacted]' },
    });
  });

  it('are at most so large, and beyond it named by a hash', () => {
    const sized = (bytes: number) => ({ a: 'ä'.repeat((bytes - 8) / 2) });
    const fits = sized(limits.auditStateBytesMax);
    expect(Buffer.byteLength(canonicalJson(fits))).toBe(limits.auditStateBytesMax);
    expect(created(fits)).toEqual(fits);
    const large = sized(limits.auditStateBytesMax + 2);
    expect(created(large)).toEqual({
      truncated: true,
      bytes: limits.auditStateBytesMax + 2,
      hash: textHash(canonicalJson(large)),
    });
  });

  it('always have a form that can be hashed', () => {
    expect(created({ a: '\ud800', '\udc00': 1 })).toEqual({ a: '\ufffd', '\ufffd': 1 });
  });

  it('take linear time for what almost looks like a token', () => {
    const startedMs = performance.now();
    created({ a: 'eyJ'.repeat(200_000), b: 'at_live_'.repeat(70_000), c: 'eyJ.'.repeat(150_000) });
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });
});
