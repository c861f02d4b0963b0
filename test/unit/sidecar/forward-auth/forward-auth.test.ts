import { describe, expect, it } from 'vitest';
import type { ApiKeyId, RequestId } from '../../../../shared/model/ids.ts';
import { ForwardAuth } from '../../../../sidecar/forward-auth/forward-auth.ts';
import { refusal } from '../../../support/refusal.ts';

const requestId = 'req_01m7w8f9hmk9xzhvcz13er4z9h' as RequestId;
const route = { gateId: 'gate_01m7w8f9hmk9xzhvcz13er4z9h', pathBelow: '/' };

/** How a peer at this address is admitted; it shows no passport, so that nothing is decided. */
function admission(trust: 'loopback' | 'none', remoteAddress: string, key = ''): string {
  const admitted = {
    requestId,
    caller: { keyId: 'key_01m7w8f9hmk9xzhvcz13er4z9h' as ApiKeyId, mode: 'live' as const, scopes: [] },
    gateId: route.gateId,
    authorization: null,
  };
  let how = 'nobody';
  const never = () => {
    throw new Error('nothing is decided here');
  };
  const forwardAuth = new ForwardAuth(
    {
      enforcer: {
        admit: ({ authorization }) => {
          how = authorization;
          return admitted;
        },
        admitPeer: () => {
          how = 'peer';
          return admitted;
        },
        ask: never,
      },
      verifier: { known: never, verify: never },
      routesOf: () => [],
    },
    { trust, headers: [] },
  );
  const head = {
    method: 'GET',
    path: `/${route.gateId}`,
    query: '',
    authorization: '',
    headers: ['', key],
    remoteAddress,
  };
  forwardAuth.handle(head, route, requestId);
  return how;
}

describe('without a key', () => {
  it.each(['127.0.0.1', '127.8.9.10', '::1'])('the peer %s is trusted, unless nobody is', (address) => {
    expect(admission('loopback', address)).toBe('peer');
    expect(refusal(() => admission('none', address)).code).toBe('unauthorized');
  });

  it.each(['10.0.0.1', '192.168.1.127', '1.127.0.0', '::', '::2', 'fe80::1', '128.0.0.1', ''])(
    'the peer %j is refused',
    (address) => {
      expect(refusal(() => admission('loopback', address)).code).toBe('unauthorized');
    },
  );
});

it('a key is what counts, wherever it comes from', () => {
  for (const address of ['10.0.0.1', '127.0.0.1']) {
    expect(admission('loopback', address, 'at_live_x')).toBe('Bearer at_live_x');
    expect(admission('none', address, 'at_live_x')).toBe('Bearer at_live_x');
  }
});
