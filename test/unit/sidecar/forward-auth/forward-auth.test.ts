import { describe, expect, it } from 'vitest';
import { RequestWriter } from '../../../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../../../shared/decision/facts.ts';
import { ApiError } from '../../../../shared/errors/api-error.ts';
import type { ApiKeyId, PassportId, RequestId } from '../../../../shared/model/ids.ts';
import { momentOf, systemClock } from '../../../../shared/runtime/clock.ts';
import type { OpenCheck } from '../../../../sidecar/decide/check.ts';
import { type CheckReply, errorReply } from '../../../../sidecar/decide/replies.ts';
import type { Reply } from '../../../../sidecar/http/server.ts';
import { ForwardAuth } from '../../../../sidecar/intake/forward-auth/forward-auth.ts';
import type { TokenOutcome } from '../../../../sidecar/verify/verifier.ts';
import { refusal } from '../../../support/base/refusal.ts';

const moment = momentOf(systemClock);
const requestId = 'req_01m7w8f9hmk9xzhvcz13er4z9h' as RequestId;
const route = { gateId: 'gate_01m7w8f9hmk9xzhvcz13er4z9h', pathBelow: '/' };

/** How a peer at this address is admitted; it shows no passport, so that nothing is decided. */
function admission(trust: 'loopback' | 'none', remoteAddress: string, key = ''): string {
  let how = 'nobody';
  const never = () => {
    throw new Error('nothing is decided here');
  };
  const forwardAuth = new ForwardAuth(
    {
      intake: {
        admit: (authorization) => {
          how = authorization;
          return { keyId: 'key_01m7w8f9hmk9xzhvcz13er4z9h' as ApiKeyId, mode: 'live', scopes: [] };
        },
        admitPeer: () => {
          how = 'peer';
          return { mode: 'live', keyId: null };
        },
        refuseUnknownGate: () => undefined,
        open: never,
        ask: never,
        moment: () => moment,
      },
      writer: new RequestWriter(),
      routesOf: () => [],
      shadowRoutesOf: () => null,
    },
    { trust, headers: [] },
  );
  const head = {
    ...{ method: 'GET', path: `/${route.gateId}`, query: '', authorization: '', headers: ['', key] },
    ...{ repeated: null, contentEncoding: '', traceparent: '', tracestate: '', remoteAddress },
  };
  forwardAuth.handle(head, route, { requestId, nowMs: moment.nowMs });
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

describe('a question', () => {
  const passportId = 'pass_01m7w8f9hmk9xzhvcz13er4z9h' as PassportId;
  const passport = { passportId } as VerifiedPassport;

  /** A question with a passport, and its answer. */
  function ask(token: TokenOutcome | null, reply: CheckReply) {
    const asked: unknown[] = [];
    const replies: Reply[] = [];
    const responder = { isAborted: false, reply: (answer: Reply) => void replies.push(answer) };
    const forwardAuth = new ForwardAuth(
      {
        intake: {
          admit: () => {
            throw new Error('a peer needs no key');
          },
          admitPeer: () => ({ mode: 'live', keyId: null }),
          refuseUnknownGate: () => undefined,
          open: (_head, to) => ({ responder: to, token }) as OpenCheck,
          ask: (check, { call }) => {
            asked.push(call);
            check.responder.reply(reply);
          },
          moment: () => moment,
        },
        writer: new RequestWriter(),
        routesOf: () => [],
        shadowRoutesOf: () => null,
      },
      { trust: 'loopback', headers: [] },
    );
    const head = {
      ...{ method: 'GET', path: `/${route.gateId}`, query: '', authorization: 'Passport token' },
      ...{ headers: ['', ''], repeated: null, contentEncoding: '', traceparent: '', tracestate: '' },
      remoteAddress: '127.0.0.1',
    };
    const outcome = forwardAuth.handle(head, route, { requestId, nowMs: moment.nowMs });
    if (!('handle' in outcome)) throw new Error('it was refused');
    outcome.handle(Buffer.alloc(0), responder);
    return { asked, replies };
  }

  const refused = errorReply(new ApiError('invalid_request'), requestId);
  const named = (replies: readonly Reply[]) =>
    replies.map(({ status, headers }) => [status, new Map(headers).get('x-passport-id')]);

  it('is asked in the words of a check', () => {
    const { asked } = ask({ kind: 'verified', passport }, refused);
    expect(asked).toEqual([{ passport: 'token', request: { method: 'GET', path: '/' } }]);
  });

  it('names no passport where it is refused: the same one may or may not be remembered', () => {
    expect(named(ask({ kind: 'verified', passport }, refused).replies)).toEqual([[400, '']]);
  });

  it.each<TokenOutcome | null>([
    { kind: 'refused', reason: 'passport_malformed' },
    { kind: 'overloaded' },
    { kind: 'unavailable' },
    null,
  ])('names no passport that has not verified: %j', (token) => {
    expect(named(ask(token, refused).replies)).toEqual([[400, '']]);
  });
});
