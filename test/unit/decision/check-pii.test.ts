import { describe, expect, it } from 'vitest';
import type { PiiMode } from '../../../shared/model/constraints.ts';
import { limits } from '../../../shared/model/limits.ts';
import { aPassport, decideAt } from './samples.ts';

const email = { pointer: '/note', type: 'email' };
const unscanned = { pointer: '', type: 'unscanned' };
const nothing = { findings: [], isComplete: true };
const found = { findings: [email], isComplete: true };
const tooLong = { findings: [email], isComplete: false };

const decideIn = (mode: PiiMode, pii: typeof found | typeof nothing | null) =>
  decideAt({ constraints: { pii_controls: { mode } }, request: { pii } });

describe('PII controls', () => {
  it.each<PiiMode>(['log_only', 'redact', 'block'])(
    'of mode %s permit a request in which nothing was found',
    (mode) => {
      expect(decideIn(mode, nothing)).toMatchObject({
        outcome: 'PERMIT',
        evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'pii_controls'],
        pii: [],
        isRedacted: false,
      });
    },
  );

  it('of mode log_only permit, and report the findings', () => {
    expect(decideIn('log_only', found)).toMatchObject({ outcome: 'PERMIT', pii: [email], isRedacted: false });
  });

  it('of mode log_only report a text that was not scanned to its end', () => {
    expect(decideIn('log_only', tooLong)).toMatchObject({ outcome: 'PERMIT', pii: [email, unscanned] });
  });

  it('never report more than a record holds', () => {
    const findings = Array.from({ length: limits.piiFindingsMax }, (_, at) => ({
      pointer: `/${at}`,
      type: 'email',
    }));
    const { pii } = decideIn('log_only', { findings, isComplete: false });
    expect(pii).toEqual([...findings.slice(0, -1), unscanned]);
  });

  it('of mode redact permit a copy without the findings', () => {
    expect(decideIn('redact', found)).toMatchObject({ outcome: 'PERMIT', pii: [email], isRedacted: true });
  });

  it('of mode block keep it out', () => {
    expect(decideIn('block', found)).toMatchObject({
      outcome: 'BLOCK',
      reason: 'pii_detected',
      pii: [email],
      isRedacted: false,
      charge: null,
    });
  });

  it.each<PiiMode>(['redact', 'block'])(
    'of mode %s keep a text out that was not scanned to its end',
    (mode) => {
      expect(decideIn(mode, { findings: [], isComplete: false })).toMatchObject({
        outcome: 'BLOCK',
        reason: 'pii_detected',
        pii: [],
        isRedacted: false,
      });
    },
  );

  it('are reported by a BLOCK that comes later, without a copy', () => {
    const constraints = { pii_controls: { mode: 'redact' }, approvals: { permissions: ['orders:create'] } };
    const passport = aPassport({ constraints: { rate_limits: { requests_per_minute: 0 } } });
    const zero = { limit: 0, available: 0, used: 0, isFinal: false, endsAtMs: null };
    const blocked = decideAt({ constraints, passport, request: { pii: found }, quota: { rate: [zero] } });
    expect(blocked).toMatchObject({ reason: 'rate_limit_exceeded', pii: [email], isRedacted: false });
    const suspended = decideAt({ constraints, request: { pii: found } });
    expect(suspended).toMatchObject({ outcome: 'SUSPEND', pii: [email], isRedacted: false });
  });

  it('are not reported by a BLOCK that comes before them', () => {
    const constraints = { pii_controls: { mode: 'block' }, allowed_domains: [] };
    expect(decideAt({ constraints, request: { pii: found } })).toMatchObject({
      reason: 'domain_missing',
      pii: [],
    });
  });

  it('never pass a request that was not scanned', () => {
    expect(() => decideIn('log_only', null)).toThrow('was scanned');
  });
});
