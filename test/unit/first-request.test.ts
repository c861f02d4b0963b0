import { describe, expect, it } from 'vitest';
import { type Filling, firstRequestAt, snippetsFor } from '../../console/src/pages/first-request-snippets.ts';

const filling: Filling = {
  gateId: 'gate_00000000000000000000000001',
  sidecar: 'https://sidecar.example.com',
  controlPlane: 'https://trust.example.com',
  key: 'at_live_key',
  passport: 'head.body.signature',
  request: { permission_key: 'payments:create', amount: 0.5, domain: 'www.example.com' },
};
const textsOf = (of: Filling) =>
  snippetsFor(of).map(({ name, blocks }) => [name, blocks.map(({ text }) => text).join('\n')] as const);

describe('the first request at a gate', () => {
  it.each([
    ['no limits', {}, { permission_key: 'research:read' }],
    ['a budget', { spend_limits: { daily_usd: 20 } }, { permission_key: 'payments:create', amount: 1 }],
    [
      'no money',
      { spend_limits: { per_transaction_usd: 0 } },
      { permission_key: 'research:read', amount: 0 },
    ],
    ['approvals', { approvals: { above_usd: 0.5 } }, { permission_key: 'payments:create', amount: 0.5 }],
    ['domains', { allowed_domains: ['*.a.com'] }, { permission_key: 'research:read', domain: 'www.a.com' }],
  ] as const)('fits %s', (_what, constraints, request) => {
    expect(firstRequestAt({ constraints }, undefined)).toEqual(request);
  });

  it('needs what the routes of the gate need, or what the person names', () => {
    const gate = { constraints: {}, routes: [{ path: '/', permission_key: 'orders:read' }] };
    expect(firstRequestAt(gate, undefined).permission_key).toBe('orders:read');
    expect(firstRequestAt(gate, 'orders:create').permission_key).toBe('orders:create');
    expect(firstRequestAt(gate, "x:y'; id").permission_key).toBe('orders:read');
  });
});

describe('the snippets', () => {
  it.each(textsOf(filling))('have everything filled in: %s', (name, text) => {
    expect(text).toContain(filling.gateId);
    expect(text).toContain('sidecar.example.com');
    expect(text).toContain('head.body.signature');
    if (name !== 'nginx') expect(text).toContain('at_live_key');
    expect(text).not.toContain('undefined');
    if (name === 'curl') expect(text).toContain('"amount":0.5,"domain":"www.example.com"');
  });

  it.each(textsOf({ ...filling, key: null, passport: null }))(
    'take the key and the passport from variables once they are gone: %s',
    (name, text) => {
      expect(text).toContain('$PASSPORT');
      if (name === 'curl') expect(text).toContain('Bearer $AGENT_TRUST_API_KEY');
      expect(text).not.toContain('null');
    },
  );
});
