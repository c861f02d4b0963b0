import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { askForward, type ForwardRequest } from '../support/forward-auth.ts';
import { RawConnection } from '../support/raw-http.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { until, untilAnswer } from '../support/until.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

type Headers = NonNullable<ForwardRequest['headers']>;

/** What a proxy sets that is configured for all of them. */
const trusted = [
  'x-forwarded-method',
  'x-forwarded-uri',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-original-method',
  'x-original-uri',
  'x-gate-permission',
  'x-gate-amount',
];

describe.each(adapters)('the per-gate address on $name', (adapter) => {
  let sidecar: TestSidecar;
  beforeAll(async () => {
    sidecar = await startTestSidecar({ api, adapter, forwardAuth: { trust: 'loopback', headers: trusted } });
  });
  afterAll(async () => {
    await sidecar.close();
    sidecar.removeFolder();
  });

  const orders = ['X-Gate-Permission', 'orders:create'] as const;

  async function setUp(constraints: object = {}, gate: object = {}) {
    const { gate_id: gateId } = await api.createGate({ constraints, ...gate });
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    const shown = ['Authorization', `Passport ${passport.jwt}`] as const;
    const ask = async (headers: Headers = [shown, orders], more: Partial<ForwardRequest> = {}) => {
      const answer = await askForward(sidecar, { target: `/${gateId}`, headers, ...more });
      if (answer === null) throw new Error('the connection closed without an answer');
      return answer;
    };
    return { gateId, passport, shown, ask };
  }

  describe('decides', () => {
    it('PERMIT with 200 and the ids of record and passport', async () => {
      const { ask, passport } = await setUp();
      const answer = await ask();
      expect(answer).toMatchObject({ status: 200, decision: 'PERMIT', reason: '' });
      expect(answer.attestationId).toMatch(/^att_/);
      expect(answer.passportId).toBe(passport.passport_id);
      expect(answer.headers['cache-control']).toBe('no-store');
      expect(answer.headers['x-request-id']).toMatch(/^req_/);
      expect(answer.body).toMatchObject({ decision: 'PERMIT', attestation_id: answer.attestationId });
    });

    it('takes the passport of either header, or the same of both', async () => {
      const { ask, passport, shown } = await setUp();
      const other = ['X-Agent-Passport', passport.jwt] as const;
      for (const headers of [[shown], [other], [shown, other]]) {
        expect((await ask([...headers, orders])).decision).toBe('PERMIT');
      }
    });

    it("401 for a passport that does not verify, without an agent's name", async () => {
      const { ask } = await setUp();
      const answer = await ask([['X-Agent-Passport', 'no token'.replace(' ', '_')], orders]);
      expect(answer).toMatchObject({ status: 401, decision: 'BLOCK', reason: 'passport_malformed' });
      expect(answer.passportId).toBe('');
      expect(answer.attestationId).toMatch(/^att_/);
      expect(answer.headers['www-authenticate']).toBe('Passport');
    });

    it('401 for a revoked passport, which is named', async () => {
      const { ask, passport } = await setUp();
      await api.call({ method: 'POST', url: `/v1/passports/${passport.passport_id}/revoke` });
      await sidecar.caughtUp();
      const answer = await ask();
      expect(answer).toMatchObject({ status: 401, decision: 'BLOCK', reason: 'passport_revoked' });
      expect(answer.passportId).toBe(passport.passport_id);
    });

    it('403 for every other BLOCK, and says when to try again', async () => {
      const { ask, shown } = await setUp({ rate_limits: { requests_per_day: 1 } });
      const denied = await ask([shown, ['X-Gate-Permission', 'orders:delete']]);
      expect(denied).toMatchObject({ status: 403, decision: 'BLOCK', reason: 'permission_not_granted' });
      expect(denied.headers).not.toHaveProperty('retry-after');
      expect((await ask()).decision).toBe('PERMIT');
      const limited = await ask();
      expect(limited).toMatchObject({ status: 403, reason: 'rate_limit_exceeded' });
      const { after_ms } = limited.body.retry;
      expect(limited.headers['retry-after']).toBe(String(Math.ceil(after_ms / 1_000)));
    });

    it.each(['/pay?card=4111+1111+1111+1111', '/pay?card=4111%201111%201111%201111', '/4111%20111111111111'])(
      '403 for personal data in the target %s',
      async (target) => {
        const { ask, gateId } = await setUp({ pii_controls: { mode: 'block' } });
        const answer = await ask(undefined, { target: `/${gateId}${target}` });
        expect(answer).toMatchObject({ status: 403, decision: 'BLOCK', reason: 'pii_detected' });
        expect(JSON.stringify(answer.body)).not.toContain('1111');
      },
    );

    it('403 for a SUSPEND, which has no record yet', async () => {
      const { ask, shown } = await setUp({ approvals: { above_usd: 10 } });
      const answer = await ask([shown, orders, ['X-Gate-Amount', '10.5']]);
      expect(answer).toMatchObject({ status: 403, decision: 'SUSPEND', reason: 'approval_required' });
      expect(answer.attestationId).toBe('');
      expect(answer.body.approval_id).toMatch(/^appr_/);
    });
  });

  describe('takes the permission', () => {
    const routes = [
      { methods: ['GET', 'HEAD'], path: '/orders/:id', permission_key: 'orders:create' },
      { methods: ['POST'], path: '/orders', permission_key: 'orders:create', amount_usd: 5 },
      { path: '/orders/*', permission_key: 'orders:delete' },
    ];
    const missing = { status: 403, decision: 'BLOCK', reason: 'permission_missing' };

    it('of the first route that has the method and path below the gate', async () => {
      const { ask, gateId, shown } = await setUp({ spend_limits: { per_transaction_usd: 4 } }, { routes });
      const at = (method: string, below: string) => ask([shown], { method, target: `/${gateId}${below}` });
      // Without an amount, where there is a limit on money.
      expect((await at('GET', '/orders/7')).reason).toBe('amount_missing');
      expect((await at('POST', '/orders')).reason).toBe('spend_limit_exceeded');
      expect((await at('DELETE', '/orders/7')).reason).toBe('permission_not_granted');
      for (const [method, below] of [
        ['DELETE', '/orders'],
        ['GET', '/orders'],
        ['GET', ''],
        ['GET', '/'],
        ['GET', '/other'],
        ['HEAD', '/'],
        ['OPTIONS', '/orders'],
      ] as const) {
        const answer = await at(method, below);
        expect([method, below, answer]).toEqual([method, below, expect.objectContaining(missing)]);
        if (method !== 'HEAD') expect(answer.body.detail).toContain('no route of the gate');
      }
    });

    it('with the query left out of the match, and bound by the record', async () => {
      const { ask, gateId, shown } = await setUp({}, { routes });
      const hashes = new Set<string>();
      for (const query of ['', '?a=1', '?a=%2f..//;&b=%zz']) {
        const answer = await ask([shown], { target: `/${gateId}/orders/7${query}` });
        expect(answer.decision).toBe('PERMIT');
        const record = await untilAnswer(
          () => api.call({ url: `/v1/attestations/${answer.attestationId}` }),
          ({ status }) => status === 200,
          { what: 'the record' },
        );
        hashes.add(record.body.request_hash);
      }
      expect(hashes.size).toBe(3);
    });

    it('of trusted headers for method and target, before those of the request itself', async () => {
      const { ask, gateId, shown } = await setUp({}, { routes });
      const original = [
        ['X-Original-Method', 'HEAD'],
        ['X-Original-URI', '/orders/7?x=1'],
      ] as const;
      const forwarded = [
        ['X-Forwarded-Method', 'HEAD'],
        ['X-Forwarded-Uri', '/orders/7?x=1'],
      ] as const;
      for (const headers of [original, forwarded, [...original, ...forwarded]]) {
        const more = { method: 'POST', target: `/${gateId}/nothing` };
        expect((await ask([shown, ...headers], more)).decision).toBe('PERMIT');
      }
      // The header names the permission, whatever the routes say.
      expect((await ask([shown, orders], { target: `/${gateId}/nothing` })).decision).toBe('PERMIT');
    });

    it('and gives none for a path that can be read in two ways, whatever a header names', async () => {
      const { ask, gateId, shown } = await setUp({ rate_limits: { requests_per_day: 1 } }, { routes });
      for (const below of [
        '/orders/a%2fb',
        '/orders/../orders/7',
        '/orders/%2e%2E/x',
        '/orders\\7',
        '//orders/7',
        '/orders//7',
        '/orders/%zz',
        '/orders/%c0%af',
        '/orders/a;b',
        '/orders/%00',
        '/orders/%252f',
        '/orders/#',
        `/orders/${'a'.repeat(limits.requestPathCharsMax)}`,
      ]) {
        const own = await ask([shown, orders], { target: `/${gateId}${below}` });
        const given = await ask([shown, orders, ['X-Original-URI', below]]);
        for (const answer of [own, given]) {
          expect([below, answer]).toEqual([below, expect.objectContaining(missing)]);
          expect(answer.body.detail).toContain('can be read in more than one way');
          expect(answer.attestationId).toMatch(/^att_/);
        }
      }
      // Nothing was taken from the only request of the day.
      expect((await ask()).decision).toBe('PERMIT');
    });

    it('of the routes as they are after a change of the gate', async () => {
      const { ask, gateId, shown } = await setUp({}, { routes });
      const more = { target: `/${gateId}/new` };
      expect((await ask([shown], more)).reason).toBe('permission_missing');
      for (const [changed, decision] of [
        [[{ path: '/new', permission_key: 'orders:create' }], 'PERMIT'],
        [null, 'BLOCK'],
      ] as const) {
        await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: { routes: changed } });
        await sidecar.caughtUp();
        expect((await ask([shown], more)).decision).toBe(decision);
      }
    });
  });

  describe('refuses', () => {
    it('no passport, two passports, and one that was sent twice', async () => {
      const { ask, passport, shown } = await setUp();
      const other = (await api.issuePassport()).jwt;
      const header = ['X-Agent-Passport', passport.jwt] as const;
      const shows: readonly (readonly [reason: string, headers: Headers])[] = [
        ['passport_missing', []],
        ['passport_missing', [['Authorization', 'Passport ']]],
        ['passport_missing', [['Authorization', `Bearer ${passport.jwt}`]]],
        ['passport_missing', [['Authorization', `Passports ${passport.jwt}`]]],
        ['passport_ambiguous', [shown, ['X-Agent-Passport', other]]],
        ['passport_ambiguous', [header, header]],
        ['passport_ambiguous', [header, ['X-Agent-Passport', other]]],
        ['passport_ambiguous', [shown, shown]],
        [
          'passport_ambiguous',
          [header, ['Authorization', 'Bearer x'], ['Authorization', `Passport ${other}`]],
        ],
        ['passport_ambiguous', [['Authorization', `Passport ${passport.jwt} ${other}`]]],
      ];
      for (const [reason, headers] of shows) {
        const answer = await ask([...headers, orders]);
        expect(answer).toMatchObject({ status: 401, decision: 'NONE', reason });
        expect([answer.attestationId, answer.passportId]).toEqual(['', '']);
        expect(answer.headers['www-authenticate']).toBe('Passport');
        expectError(answer, 'unauthorized');
      }
    });

    it('a gate that is unknown, the same with a passport that it remembers as with a new one', async () => {
      const { ask, shown } = await setUp();
      const { gateId, ask: askGone } = await setUp();
      await api.call({ method: 'DELETE', url: `/v1/gates/${gateId}` });
      await sidecar.caughtUp();
      const before = await askGone([shown, orders]);
      expect((await ask()).decision).toBe('PERMIT');
      const after = await askGone([shown, orders]);
      for (const answer of [before, after]) {
        expect(answer).toMatchObject({ status: 404, decision: 'NONE', reason: 'gate_not_found' });
        expect(answer.passportId).toBe('');
      }
    });

    it('trusted headers that came twice, contradict each other or cannot be read', async () => {
      const { ask, shown } = await setUp();
      const wrong: readonly Headers[] = [
        [
          ['X-Original-URI', '/a'],
          ['X-Original-URI', '/a'],
        ],
        [
          ['X-Original-URI', '/a'],
          ['X-Forwarded-Uri', '/b'],
        ],
        [
          ['X-Original-Method', 'GET'],
          ['X-Forwarded-Method', 'POST'],
        ],
        [
          ['X-Forwarded-Method', 'GET'],
          ['X-Forwarded-Method', 'GET'],
        ],
        [orders],
        [
          ['X-Gate-Amount', '5'],
          ['X-Gate-Amount', '5'],
        ],
        ...['-1', '1e3', '0x1', 'NaN', '.5', '1.1234567', ' 1 1', '99999999999'].map(
          (amount) => [['X-Gate-Amount', amount]] as const,
        ),
        [['X-Gate-Permission', 'orders']],
        [['X-Forwarded-Host', 'a.example, b.example']],
      ];
      for (const headers of wrong) {
        const answer = await ask([shown, orders, ...headers]);
        expect([headers, answer.status, answer.decision]).toEqual([headers, 400, 'NONE']);
        expect(answer.reason).toBe('invalid_request');
      }
    });

    it('context from headers that are not trusted', async () => {
      const { gateId, shown } = await setUp(
        {},
        { routes: [{ path: '/mine', permission_key: 'orders:create' }] },
      );
      const strict = await startTestSidecar({ api, adapter });
      await strict.caughtUp();
      const forged: Headers = [
        orders,
        ['X-Gate-Amount', 'x'],
        ['X-Gate-Decision', 'PERMIT'],
        ['X-Original-URI', '/mine'],
        ['X-Forwarded-Uri', '/mine'],
        ['X-Original-URL', 'http://x/mine'],
        ['X-Forwarded-Method', 'GET'],
        ['X-Rewrite-Url', '/mine'],
        ['X-HTTP-Method-Override', 'GET'],
        ['X-Forwarded-For', '127.0.0.1'],
        ['X-Attestation-Id', 'att_x'],
        ['X-Passport-Id', 'pass_x'],
        ['X-Agent-Approval', 'appr_x'],
      ];
      const ask = (target: string) =>
        askForward(strict, { method: 'DELETE', target, headers: [shown, ...forged] });
      expect(await ask(`/${gateId}`)).toMatchObject({ status: 403, reason: 'permission_missing' });
      // A control: the headers do no harm where the path itself is one of the routes.
      expect(await ask(`/${gateId}/mine`)).toMatchObject({ status: 200, decision: 'PERMIT' });
      await strict.close();
      strict.removeFolder();
    });

    it('gates that do not exist, of another account, or deleted', async () => {
      const { shown, gateId, ask } = await setUp();
      const other = await api.createAccount();
      const foreign = (await api.createGate({}, other.key)).gate_id;
      for (const target of ['/gate_00000000000000000000000000', `/${foreign}`, `/${foreign}/x`]) {
        expect(await ask([shown, orders], { target })).toMatchObject({
          status: 404,
          decision: 'NONE',
          reason: 'gate_not_found',
        });
      }
      for (const target of [
        '/gate_1',
        `/${gateId}x`,
        `/${gateId};a`,
        `/${gateId.replace('_', '%5F')}`,
        '/gate_/',
      ])
        expectError(await ask([shown, orders], { target }), 'route_not_found');
      await api.call({ method: 'DELETE', url: `/v1/gates/${gateId}` });
      await sidecar.caughtUp();
      expect((await ask()).status).toBe(404);
    });
  });

  describe('identifies its caller', () => {
    it('by the key, where one is sent, also from a loopback peer', async () => {
      const { ask, shown } = await setUp();
      const askWith = (key: string) => ask([shown, orders, ['X-Agent-Trust-Key', key]]);
      const checker = await api.createKey({ scopes: ['enforcement:check'] });
      const reader = await api.createKey({ scopes: ['gates:read'] });
      const testKey = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
      const other = await api.createAccount();
      await sidecar.caughtUp();
      expect((await askWith(checker.key)).decision).toBe('PERMIT');
      const refused: readonly (readonly [string, number, string])[] = [
        [reader.key, 403, 'insufficient_scope'],
        [other.key, 401, 'unauthorized'],
        [`${checker.key}x`, 401, 'unauthorized'],
        [`Bearer ${checker.key}`, 401, 'unauthorized'],
        [`${checker.key}, ${checker.key}`, 401, 'unauthorized'],
        // Its gates are those of the other mode.
        [testKey.key, 404, 'gate_not_found'],
      ];
      for (const [key, status, reason] of refused)
        expect(await askWith(key)).toMatchObject({ status, reason, decision: 'NONE' });
      // Without a passport a key learns whether it knows the gate, and nothing is decided.
      const tries: readonly (readonly [string, number, string])[] = [
        [checker.key, 401, 'passport_missing'],
        [testKey.key, 404, 'gate_not_found'],
      ];
      for (const [key, status, reason] of tries)
        expect(await ask([['X-Agent-Trust-Key', key]])).toMatchObject({ status, reason, decision: 'NONE' });
      await api.call({ method: 'DELETE', url: `/v1/api-keys/${checker.keyId}` });
      await sidecar.caughtUp();
      expect((await askWith(checker.key)).status).toBe(401);
    });

    it('by no address where FORWARD_AUTH_TRUST is none', async () => {
      const { gateId, shown } = await setUp();
      const strict = await startTestSidecar({
        api,
        adapter,
        forwardAuth: { trust: 'none', headers: trusted },
      });
      await strict.caughtUp();
      const ask = (headers: Headers) =>
        askForward(strict, { target: `/${gateId}`, headers: [shown, orders, ...headers] });
      for (const headers of [[], [['X-Forwarded-For', '127.0.0.1']]] as const) {
        const answer = await ask(headers);
        expect(answer).toMatchObject({ status: 401, decision: 'NONE', reason: 'unauthorized' });
        expect(answer?.headers['www-authenticate']).toMatch(/^Bearer/);
      }
      expect(await ask([['X-Agent-Trust-Key', api.adminKey]])).toMatchObject({ status: 200 });
      await strict.close();
      strict.removeFolder();
    });

    it('as a test-mode gate asks for itself, from a loopback peer', async () => {
      const { key } = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
      const gate = await api.createGate({}, key);
      const passport = await api.issuePassport({}, key);
      const live = await api.issuePassport();
      await sidecar.caughtUp();
      const ask = (jwt: string) =>
        askForward(sidecar, { target: `/${gate.gate_id}`, headers: [['X-Agent-Passport', jwt], orders] });
      expect(await ask(passport.jwt)).toMatchObject({ decision: 'PERMIT' });
      expect(await ask(live.jwt)).toMatchObject({ status: 403, reason: 'mode_mismatch' });
    });
  });

  describe('serves HTTP', () => {
    it('with every method, and HEAD without a body', async () => {
      const { ask } = await setUp();
      for (const method of [
        'GET',
        'HEAD',
        'POST',
        'PUT',
        'PATCH',
        'DELETE',
        'OPTIONS',
        'TRACE',
        'PROPFIND',
      ]) {
        const answer = await ask(undefined, { method });
        expect([method, answer.status, answer.decision]).toEqual([method, 200, 'PERMIT']);
        expect(answer.body === '').toBe(method === 'HEAD');
      }
    });

    it('and permits nothing that is no request for a path', async () => {
      const { gateId, shown } = await setUp();
      const headers = [shown, orders];
      for (const request of [
        { method: 'CONNECT', target: `${gateId}:443` },
        { method: 'CONNECT', target: `/${gateId}` },
        { method: 'OPTIONS', target: '*' },
        { target: `http://proxy.test/${gateId}` },
        { target: gateId },
        { method: 'get', target: `/${gateId}` },
        { method: 'FOO', target: `/${gateId}` },
        { version: '1.0', target: `/${gateId}` },
        {
          target: `/${gateId}`,
          headers: [...headers, ['X-Pad', 'a'.repeat(limits.headerBytesMax)]] as const,
        },
      ]) {
        const answer = await askForward(sidecar, { headers, ...request });
        // uWebSockets.js passes on any method in a path, node:http those that it knows; node:http serves 1.0.
        const isServed = answer?.status === 200 && answer.decision === 'PERMIT';
        if (isServed) expect(['get', 'FOO', 'CONNECT', undefined]).toContain(request.method);
        else expect(answer === null || answer.status >= 400).toBe(true);
        if (request.target !== `/${gateId}` || request.headers !== undefined) expect(isServed).toBe(false);
      }
    });

    it('with the largest token and a long target beside it', async () => {
      const { ask, gateId } = await setUp();
      const answer = await ask([['X-Agent-Passport', 'a'.repeat(limits.tokenBytesMax)], orders], {
        target: `/${gateId}/${'b'.repeat(4_096)}`,
      });
      expect(answer).toMatchObject({ status: 401, reason: 'passport_malformed' });
    });

    it('and reads no more of a body than that it ends', async () => {
      const { ask } = await setUp();
      const body = 'x'.repeat(limits.bodyBytesMax + 1);
      expect((await ask(undefined, { method: 'POST', body })).decision).toBe('PERMIT');
      const answer = await ask([['Transfer-Encoding', 'chunked']], { method: 'POST' });
      expect(answer.status).toBe(400);
    });
  });

  describe('cannot always decide', () => {
    it('401 from the moment on at which the passport expires, by the carried clock', async () => {
      const { gate_id: gateId } = await api.createGate();
      const passport = await api.issuePassport({ expires_in: '1h' });
      await sidecar.caughtUp();
      const headers = [['X-Agent-Passport', passport.jwt], orders] as const;
      const ask = () => askForward(sidecar, { target: `/${gateId}`, headers });
      const endsAtMs = Date.parse(passport.expires_at);
      sidecar.stopClockAt(endsAtMs - 1);
      expect(await ask()).toMatchObject({ decision: 'PERMIT' });
      sidecar.stopClockAt(endsAtMs);
      expect(await ask()).toMatchObject({ status: 401, decision: 'BLOCK', reason: 'passport_expired' });
      sidecar.resume();
      expect(await ask()).toMatchObject({ decision: 'PERMIT' });
    });

    it('401 where the key ends between head and body, and leaves no record', async () => {
      const { gateId, shown } = await setUp();
      const { key, keyId } = await api.createKey({ scopes: ['enforcement:check'] });
      await sidecar.caughtUp();
      const connection = await RawConnection.open(Number(new URL(sidecar.origin).port));
      const lines = [shown, orders, ['X-Agent-Trust-Key', key], ['Content-Length', '1']].map(
        ([name, value]) => `${name}: ${value}\r\n`,
      );
      await connection.send(`POST /${gateId} HTTP/1.1\r\nHost: x\r\n${lines.join('')}\r\n`);
      // Another request is answered, so this one's head has been read.
      await sidecar.call({ path: '/livez', key: null });
      await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
      await sidecar.caughtUp();
      await connection.send('x');
      const answer = await connection.next();
      expect(answer?.status).toBe(401);
      expect(answer?.headers.get('x-gate-decision')).toBe('NONE');
      expect(answer?.headers.get('x-gate-reason')).toBe('unauthorized');
      expect(answer?.headers.get('x-attestation-id')).toBe('');
      await connection.leave();
    });

    it('403 for every caller while the account of the gate is suspended', async () => {
      const { accountId, key } = await api.createAccount();
      const { gate_id: gateId } = await api.createGate({}, key);
      const passport = await api.issuePassport({}, key);
      const theirs = await startTestSidecar({
        api,
        adapter,
        accountKey: key,
        forwardAuth: { trust: 'loopback', headers: trusted },
      });
      const headers = [['X-Agent-Passport', passport.jwt], orders] as const;
      const ask = () => askForward(theirs, { target: `/${gateId}`, headers });
      expect(await ask()).toMatchObject({ decision: 'PERMIT' });
      const url = `/v1/accounts/${accountId}`;
      await api.call({ method: 'PUT', url, body: { status: 'suspended' } });
      const refused = await untilAnswer(ask, (answer) => answer?.status === 403, { what: 'the suspension' });
      expect(refused).toMatchObject({ decision: 'NONE', reason: 'account_suspended' });
      await theirs.close();
      theirs.removeFolder();
    });

    it('more than a limit allows, however many ask at once, and goes on after', async () => {
      const { ask } = await setUp({ rate_limits: { requests_per_day: 40 } });
      const answers = await Promise.all(Array.from({ length: 300 }, () => ask()));
      // On a slow machine some have waited for their unit for too long.
      const outcomes = { '200 ': 'PERMIT', '403 rate_limit_exceeded': 'BLOCK', '503 overloaded': 'NONE' };
      for (const { status, reason, decision } of answers)
        expect(outcomes).toHaveProperty([`${status} ${reason}`], decision);
      let permits = answers.filter(({ decision }) => decision === 'PERMIT').length;
      expect(permits).toBeLessThanOrEqual(40);
      await until(
        async () => {
          if (permits < 40 && (await ask()).decision === 'PERMIT') permits += 1;
          return permits === 40;
        },
        { what: 'the limit used to its end' },
      );
      expect((await ask()).reason).toBe('rate_limit_exceeded');
    });

    it('503 before it has a state', async () => {
      const { gateId, shown } = await setUp();
      const cutOff = await startTestSidecar({ api, adapter, isCutOff: true });
      const answer = await askForward(cutOff, { target: `/${gateId}`, headers: [shown, orders] });
      expect(answer).toMatchObject({ status: 503, decision: 'NONE', reason: 'service_unavailable' });
      expect(answer?.headers['retry-after']).toBe('1');
      await cutOff.close();
      cutOff.removeFolder();
    });

    it('503 at a gate with a stale state, and 200 again after', async () => {
      const gate = await api.createGate({ trust_level: 'L3' });
      const passport = await api.issuePassport({ trust_tier: 'L3' });
      await sidecar.caughtUp();
      const ask = () =>
        askForward(sidecar, {
          target: `/${gate.gate_id}`,
          headers: [['X-Agent-Passport', passport.jwt], orders],
        });
      expect(await ask()).toMatchObject({ decision: 'PERMIT' });
      await sidecar.ageStateTo(limits.stateAgeL3MsMax + 1);
      const stale = await ask();
      expect(stale).toMatchObject({ status: 503, decision: 'BLOCK', reason: 'state_stale' });
      expect(stale?.headers['retry-after']).toBe('1');
      sidecar.resume();
      await sidecar.caughtUp();
      expect(await ask()).toMatchObject({ decision: 'PERMIT' });
    });

    it('503 where a unit is needed and the control plane is away', async () => {
      const { ask } = await setUp({ rate_limits: { requests_per_day: 5 } });
      sidecar.link.cut();
      const answer = await ask();
      expect(answer).toMatchObject({ status: 503, decision: 'BLOCK', reason: 'quota_unavailable' });
      expect(answer.headers['retry-after']).toBe('1');
      sidecar.link.restore();
      await sidecar.caughtUp();
    });
  });
});
