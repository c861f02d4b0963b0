import { describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { RawConnection } from '../support/base/raw-http.ts';
import { untilAnswer } from '../support/base/until.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { expectError } from '../support/service/expect-error.ts';
import { askForward, type ForwardRequest } from '../support/service/forward-auth.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi();

type Headers = NonNullable<ForwardRequest['headers']>;
/** As `Name: value | Name: value`. */
const headersOf = (text: string): Headers =>
  text.split(' | ').map((each) => {
    const [name = '', ...value] = each.split(': ');
    return [name, value.join(': ')];
  });

const end = async (sidecar: TestSidecar) => {
  await sidecar.close();
  sidecar.removeFolder();
};

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
  const sidecar = useSidecar(() => ({ api, adapter, forwardAuth: { trust: 'loopback', headers: trusted } }));

  const routes = [
    { methods: ['GET', 'HEAD'], path: '/orders/:id', permission_key: 'orders:create' },
    { methods: ['POST'], path: '/orders', permission_key: 'orders:create', amount_usd: 5 },
    { path: '/orders/*', permission_key: 'orders:delete' },
  ];
  const missing = { status: 403, decision: 'BLOCK', reason: 'permission_missing' };
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

  describe('serves HTTP', () => {
    it('with every method, and HEAD without a body', async () => {
      const { ask } = await setUp();
      for (const method of 'GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND'.split(' ')) {
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

    it('and answers 401 where the key ends between head and body, and leaves no record', async () => {
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
  });

  describe('refuses', () => {
    it('no passport, two passports, and one that was sent twice', async () => {
      const { ask, passport, shown } = await setUp();
      const other = (await api.issuePassport()).jwt;
      const header = ['X-Agent-Passport', passport.jwt] as const;
      const without: Headers[] = [[], [['Authorization', 'Passport ']]];
      for (const scheme of ['Bearer', 'Passports'])
        without.push([['Authorization', `${scheme} ${passport.jwt}`]]);
      const ambiguous: Headers[] = [
        [shown, ['X-Agent-Passport', other]],
        [header, header],
        [header, ['X-Agent-Passport', other]],
        [shown, shown],
        [header, ['Authorization', 'Bearer x'], ['Authorization', `Passport ${other}`]],
        [['Authorization', `Passport ${passport.jwt} ${other}`]],
      ];
      for (const headers of [...without, ...ambiguous]) {
        const reason = without.includes(headers) ? 'passport_missing' : 'passport_ambiguous';
        const answer = await ask([...headers, orders]);
        expect(answer).toMatchObject({ status: 401, decision: 'NONE', reason });
        expect([answer.attestationId, answer.passportId]).toEqual(['', '']);
        expect(answer.headers['www-authenticate']).toBe('Passport');
        expectError(answer, 'unauthorized');
      }
    });

    it('trusted headers that came twice, contradict each other or cannot be read', async () => {
      const { ask, shown } = await setUp();
      const wrong = [
        'X-Original-URI: /a | X-Original-URI: /a',
        'X-Original-URI: /a | X-Forwarded-Uri: /b',
        'X-Original-Method: GET | X-Forwarded-Method: POST',
        'X-Forwarded-Method: GET | X-Forwarded-Method: GET',
        'X-Gate-Permission: orders:create',
        'X-Gate-Amount: 5 | X-Gate-Amount: 5',
        ...['-1', '1e3', 'NaN', '.5', '1.1234567', ' 1 1', '99999999999'].map((n) => `X-Gate-Amount: ${n}`),
        'X-Gate-Permission: orders',
        'X-Forwarded-Host: a.example, b.example',
      ].map(headersOf);
      for (const headers of wrong) {
        const answer = await ask([shown, orders, ...headers]);
        expect([headers, answer.status, answer.decision]).toEqual([headers, 400, 'NONE']);
        expect(answer.reason).toBe('invalid_request');
      }
    });

    it('a path that can be read in two ways, whatever permission a header names', async () => {
      const { ask, gateId, shown } = await setUp({ rate_limits: { requests_per_day: 1 } }, { routes });
      for (const below of [
        '/orders/a%2fb',
        '/orders/../orders/7',
        '//orders/7',
        '/orders/%zz',
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

    it('context from headers that are not trusted', async () => {
      const { gateId, shown } = await setUp(
        {},
        { routes: [{ path: '/mine', permission_key: 'orders:create' }] },
      );
      const strict = await startTestSidecar({ api, adapter });
      await strict.caughtUp();
      const forged = headersOf(
        'X-Gate-Permission: orders:create | X-Gate-Amount: x | X-Gate-Decision: PERMIT | ' +
          'X-Original-URI: /mine | X-Forwarded-Uri: /mine | X-Original-URL: http://x/mine | ' +
          'X-Forwarded-Method: GET | X-Rewrite-Url: /mine | X-HTTP-Method-Override: GET | ' +
          'X-Forwarded-For: 127.0.0.1 | X-Attestation-Id: att_x | X-Passport-Id: pass_x | X-Agent-Approval: appr_x',
      );
      const ask = (target: string) =>
        askForward(strict, { method: 'DELETE', target, headers: [shown, ...forged] });
      expect(await ask(`/${gateId}`)).toMatchObject({ status: 403, reason: 'permission_missing' });
      // A control: the headers do no harm where the path itself is one of the routes.
      expect(await ask(`/${gateId}/mine`)).toMatchObject({ status: 200, decision: 'PERMIT' });
      await end(strict);
    });
  });

  // What the adapter has no part in is shown on one of them.
  if (adapter !== adapters.at(-1)) return;

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

    it.each(['/pay?card=4111+1111+1111+1111', '/4111%20111111111111'])(
      '403 for personal data in the target %s',
      async (target) => {
        const { ask, gateId } = await setUp({ pii_controls: { mode: 'block' } });
        const answer = await ask(undefined, { target: `/${gateId}${target}` });
        expect(answer).toMatchObject({ status: 403, decision: 'BLOCK', reason: 'pii_detected' });
        expect(JSON.stringify(answer.body)).not.toContain('1111');
      },
    );
  });

  describe('takes the permission', () => {
    it('of the first route that has the method and path below the gate', async () => {
      const { ask, gateId, shown } = await setUp({ spend_limits: { per_transaction_usd: 4 } }, { routes });
      const at = (method: string, below: string) => ask([shown], { method, target: `/${gateId}${below}` });
      // Without an amount, where there is a limit on money.
      expect((await at('GET', '/orders/7')).reason).toBe('amount_missing');
      expect((await at('POST', '/orders')).reason).toBe('spend_limit_exceeded');
      expect((await at('DELETE', '/orders/7')).reason).toBe('permission_not_granted');
      for (const [method, below] of [
        ['DELETE', '/orders'],
        ['GET', ''],
        ['GET', '/other'],
        ['HEAD', '/'],
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
  });

  describe('answers 404', () => {
    it('for a gate that is unknown, the same with a passport that it remembers as with a new one', async () => {
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

    it('for gates that do not exist, of another account, or deleted', async () => {
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

  describe('cannot always decide', () => {
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
      await api.call({ method: 'PUT', url, key: api.operatorKey, body: { status: 'suspended' } });
      const refused = await untilAnswer(ask, (answer) => answer?.status === 403, { what: 'the suspension' });
      expect(refused).toMatchObject({ decision: 'NONE', reason: 'account_suspended' });
      await end(theirs);
    });

    it('503 before it has a state', async () => {
      const { gateId, shown } = await setUp();
      const cutOff = await startTestSidecar({ api, adapter, isCutOff: true });
      const answer = await askForward(cutOff, { target: `/${gateId}`, headers: [shown, orders] });
      expect(answer).toMatchObject({ status: 503, decision: 'NONE', reason: 'service_unavailable' });
      expect(answer?.headers['retry-after']).toBe('1');
      await end(cutOff);
    });
  });
});
