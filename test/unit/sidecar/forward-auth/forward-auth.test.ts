import { describe, expect, it } from 'vitest';
import type { VerifiedPassport } from '../../../../shared/decision/facts.ts';
import { ApiError } from '../../../../shared/errors/api-error.ts';
import type { ApiKeyId, PassportId, RequestId } from '../../../../shared/model/ids.ts';
import { type CheckResponder, errorReply } from '../../../../sidecar/decide/replies.ts';
import { ForwardAuth } from '../../../../sidecar/intake/forward-auth/forward-auth.ts';
import type { Reply } from '../../../../sidecar/http/server.ts';
import type { ReportOutcome, TokenOutcome } from '../../../../sidecar/verify/verifier.ts';
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
          // With a key it is asked for the gate alone.
          if (how === 'nobody') how = 'peer';
          return admitted.caller;
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
    repeated: null,
    contentEncoding: '',
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

describe('a question', () => {
  const passportId = 'pass_01m7w8f9hmk9xzhvcz13er4z9h' as PassportId;
  const passport = { passportId } as VerifiedPassport;

  /** A question with a passport, and what became of it. */
  function ask(known: VerifiedPassport | null) {
    const asked: (readonly [TokenOutcome | null | undefined, CheckResponder])[] = [];
    const verifying: ReportOutcome[] = [];
    const replies: Reply[] = [];
    const responder = { isAborted: false, reply: (reply: Reply) => void replies.push(reply) };
    const admitted = {
      requestId,
      caller: { mode: 'live' as const },
      gateId: route.gateId,
      authorization: null,
    };
    const forwardAuth = new ForwardAuth(
      {
        enforcer: {
          admit: () => {
            throw new Error('a peer needs no key');
          },
          admitPeer: () => admitted.caller,
          ask: (_head, _body, to, outcome) => void asked.push([outcome, to]),
        },
        verifier: { known: () => known, verify: (_token, report) => void verifying.push(report) },
        routesOf: () => [],
      },
      { trust: 'loopback', headers: [] },
    );
    const head = {
      method: 'GET',
      path: `/${route.gateId}`,
      query: '',
      authorization: 'Passport token',
      headers: ['', ''],
      repeated: null,
      contentEncoding: '',
      remoteAddress: '127.0.0.1',
    };
    const outcome = forwardAuth.handle(head, route, requestId);
    if (!('handle' in outcome)) throw new Error('it was refused');
    outcome.handle(Buffer.alloc(0), responder);
    return { asked, verifying, replies, responder };
  }

  it('is asked at once with a passport that is known', () => {
    const { asked, verifying } = ask(passport);
    expect(asked.map(([outcome]) => outcome)).toEqual([{ kind: 'verified', passport }]);
    expect(verifying).toEqual([]);
  });

  it.each<TokenOutcome>([
    { kind: 'verified', passport },
    { kind: 'refused', reason: 'passport_malformed' },
    { kind: 'overloaded' },
    { kind: 'unavailable' },
  ])('waits for its passport, and is asked with what came of it: $kind', (outcome) => {
    const { asked, verifying } = ask(null);
    expect(asked).toEqual([]);
    verifying[0]?.(outcome);
    expect(asked.map(([given]) => given)).toEqual([outcome]);
  });

  it('is not asked for a client that has gone while its passport was verified', () => {
    const { asked, verifying, responder, replies } = ask(null);
    responder.isAborted = true;
    verifying[0]?.({ kind: 'verified', passport });
    expect([asked, replies]).toEqual([[], []]);
  });

  it('is answered with the id of its passport, also where it is refused', () => {
    const { asked, replies } = ask(passport);
    asked[0]?.[1].reply(errorReply(new ApiError('invalid_request'), requestId));
    const [{ status, headers } = { status: 0, headers: [] }] = replies;
    expect([status, new Map(headers).get('x-passport-id')]).toEqual([400, passportId]);
  });
});
