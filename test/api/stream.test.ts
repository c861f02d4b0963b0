import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { streamLimits } from '../../sidecar/intake/stream/limits.ts';
import { answer } from '../support/base/raw-handshake.ts';
import { until } from '../support/base/until.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi();

const order = { permission_key: 'orders:create', amount: 5 };

describe.each(adapters)('a stream of checks over $name', (adapter) => {
  const sidecar = useSidecar(() => ({ api, adapter }));
  let gateId: string;
  let token: string;
  const clients: StreamClient[] = [];
  const open = async (key = api.adminKey, at = sidecar): Promise<StreamClient> => {
    const client = await StreamClient.open(at.origin, key);
    clients.push(client);
    return client;
  };
  const frame = (request: object = order, passport: string = token) => ({
    gate_id: gateId,
    passport,
    request,
  });

  beforeAll(async () => {
    gateId = (await api.createGate({ constraints: { approvals: { above_usd: 10 } } })).gate_id;
    token = (await api.issuePassport()).jwt;
    await sidecar.caughtUp();
  });
  afterAll(async () => {
    for (const client of clients) if (client.closing === null) await client.leave();
  });

  it('answers a frame as check answers its body: PERMIT, BLOCK, SUSPEND and errors', async () => {
    const client = await open();
    const bodies = [
      { passport: token, request: order },
      { passport: token, request: { ...order, permission_key: 'orders:delete' } },
      { passport: token, request: { ...order, amount: 11 } },
      { passport: 'no token', request: order },
      { passport: token, request: { ...order, amount: 'five' } },
      { passport: token, request: { ...order, gate_id: 'gate_01m7w8f9hmk9xzhvcz13er4z9h' } },
      { passport: 5, request: order },
      { passport: token, request: order, priority: 1 },
      { request: order },
    ];
    for (const body of bodies) {
      const alone = (await sidecar.call({ path: `/v1/gates/${gateId}/check`, body })).body;
      const { id, ...answer } = await client.ask({ gate_id: gateId, ...body });
      expect(id).toMatch(/^ask-/);
      expect(Object.keys(answer)).toEqual(Object.keys(alone));
      expect(answer.decision).toBe(alone.decision);
      expect(answer.reason).toBe(alone.reason);
      expect(answer.error?.code).toBe(alone.error?.code);
      expect(answer.error?.param).toBe(alone.error?.param);
    }
  });

  it('answers a broken frame without an id, and goes on with the others', async () => {
    const client = await open();
    const deep = `${'['.repeat(limits.jsonDepthMax + 1)}${']'.repeat(limits.jsonDepthMax + 1)}`;
    const broken: readonly (readonly [string | Buffer, string])[] = [
      ['{', 'invalid_json'],
      ['', 'invalid_request'],
      ['[]', 'invalid_request'],
      ['null', 'invalid_request'],
      [JSON.stringify(frame()), 'invalid_request'],
      [JSON.stringify({ id: 7, ...frame() }), 'invalid_request'],
      [JSON.stringify({ id: '', ...frame() }), 'invalid_request'],
      [JSON.stringify({ id: 'x'.repeat(65), ...frame() }), 'invalid_request'],
      ['{"id":"\\ud800"}', 'invalid_request'],
      [Buffer.from(JSON.stringify({ id: 'binary', ...frame() })), 'invalid_request'],
      ['x'.repeat(limits.bodyBytesMax + 1), 'body_too_large'],
    ];
    for (const [text] of broken) client.send(text as string);
    client.send({ id: 'x'.repeat(64), ...frame() });
    client.send(`{"id":"deep","gate_id":null,"passport":"","request":{"a":${deep}}}`);
    client.send(`{"id":"proto","gate_id":null,"passport":"","request":{"__proto__":1}}`);
    await client.answered(broken.length + 3);
    const codes = client.answers.filter(({ id }) => id === null).map(({ error }) => error.code);
    expect(codes.toSorted()).toEqual(broken.map(([, code]) => code).toSorted());
    expect(client.answer('x'.repeat(64)).decision).toBe('PERMIT');
    expect(client.answer('deep').error.code).toBe('invalid_request');
    expect(client.answer('proto').error.code).toBe('invalid_request');
  });

  it('takes a frame of 64 KiB, in fragments too', async () => {
    const client = await open();
    const empty = JSON.stringify({ id: 'full', ...frame({ ...order, note: '' }) });
    const note = 'x'.repeat(limits.bodyBytesMax - Buffer.byteLength(empty));
    const text = JSON.stringify({ id: 'full', ...frame({ ...order, note }) });
    expect(Buffer.byteLength(text)).toBe(limits.bodyBytesMax);
    client.socket.send(text.slice(0, 10), { fin: false });
    client.socket.send(text.slice(10, 20_000), { fin: false });
    client.socket.send(text.slice(20_000));
    await client.has(() => client.answer('full') !== undefined, 'an answer');
    expect(client.answer('full').decision).toBe('PERMIT');
  });

  it('refuses the id of a frame that has no answer yet, and takes it again afterwards', async () => {
    const client = await open();
    for (let copy = 0; copy < 3; copy++) client.send({ id: 'same', ...frame() });
    await client.answered(3);
    expect(client.answers.filter(({ id }) => id === 'same')).toHaveLength(1);
    const refused = client.answers.filter(({ id }) => id === null);
    expect(refused.map(({ error }) => [error.code, error.param])).toEqual([
      ['invalid_request', 'id'],
      ['invalid_request', 'id'],
    ]);
    client.send({ id: 'same', ...frame() });
    await client.answered(4);
    expect(client.answers[3]).toMatchObject({ id: 'same', decision: 'PERMIT' });
  });

  it('answers frames in flight and closes with 1001 when the sidecar stops', async () => {
    const own = await startTestSidecar({ api, adapter });
    const client = await open(api.adminKey, own);
    const idle = await open(api.adminKey, own);
    expect((await client.ask(frame())).decision).toBe('PERMIT');
    const frames = 200;
    for (let n = 0; n < frames; n++) client.send({ id: `${n}`, ...frame() });
    await client.has(() => client.answers.length > 1, 'the first of them');
    await own.close();
    expect((await client.closed()).code).toBe(1001);
    expect((await idle.closed()).code).toBe(1001);
    for (const { decision, error } of client.answers) {
      expect(decision === 'PERMIT' || error.code === 'service_unavailable').toBe(true);
    }
    own.removeFolder();
  });

  it('refuses a handshake in the form of every error, and says which version it speaks', async () => {
    const handshake = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    };
    const at = (headers: Record<string, string>, line = 'GET /v1/stream') =>
      answer(sidecar.origin, { line, headers: { authorization: `Bearer ${api.adminKey}`, ...headers } });
    expect((await at(handshake)).status).toBe(101);
    const wrong: readonly Record<string, string>[] = [
      {},
      { ...handshake, connection: 'keep-alive' },
      { ...handshake, upgrade: 'h2c' },
      { ...handshake, 'sec-websocket-version': '8' },
      { ...handshake, 'sec-websocket-key': 'short' },
      { ...handshake, 'sec-websocket-key': '!'.repeat(24) },
      { ...handshake, 'content-length': '5' },
    ];
    for (const headers of wrong) {
      const reply = await at(headers);
      expect([reply.status, reply.body.error.code], JSON.stringify(headers)).toEqual([
        400,
        'invalid_request',
      ]);
      expect(reply.headers.get('sec-websocket-version')).toBe('13');
    }
    expect((await at({ ...handshake, authorization: 'Bearer x' })).body.error.code).toBe('unauthorized');
    const reader = await api.createKey({ scopes: ['gates:read'] });
    await sidecar.caughtUp();
    const asReader = await at({ ...handshake, authorization: `Bearer ${reader.key}` });
    expect(asReader.body.error.code).toBe('insufficient_scope');
    expect((await at(handshake, 'GET /v1/streams')).body.error.code).toBe('route_not_found');
    expect((await at({ ...handshake, 'content-length': '0' }, 'POST /v1/stream')).body.error.code).toBe(
      'route_not_found',
    );
    const stateless = await startTestSidecar({ api, adapter, isCutOff: true });
    const early = await answer(stateless.origin, { line: 'GET /v1/stream', headers: handshake });
    expect([early.status, early.body.error.code]).toEqual([503, 'service_unavailable']);
    await stateless.close();
    stateless.removeFolder();
  });

  it('takes a bounded number of streams of one key', async () => {
    const { key } = await api.createKey({ scopes: ['enforcement:check'] });
    await sidecar.caughtUp();
    const many = await Promise.all(Array.from({ length: streamLimits.streamsPerKeyMax }, () => open(key)));
    await expect(StreamClient.open(sidecar.origin, key)).rejects.toThrow('503');
    await (await open()).leave();
    await many[0]?.leave();
    const again = await open(key);
    expect((await again.ask(frame())).decision).toBe('PERMIT');
  });

  it('answers hundreds of frames that came at once, each with one record, and other callers between', async () => {
    const gate = (await api.createGate()).gate_id;
    await sidecar.caughtUp();
    const client = await open();
    // What waits longer than a client does is refused, which is not what is shown here.
    sidecar.stopTime();
    onTestFinished(() => sidecar.resume());
    const frames = 300;
    for (let n = 0; n < frames; n++)
      client.send({ id: `${n}`, gate_id: gate, passport: token, request: { ...order, n } });
    expect((await sidecar.check(gateId, token, order)).body.decision).toBe('PERMIT');
    await client.answered(frames);
    expect(client.answers.every(({ decision }) => decision === 'PERMIT')).toBe(true);
    expect(new Set(client.answers.map((each) => each.attestation_id)).size).toBe(frames);
    const recorded = async () => (await api.call({ url: `/v1/gates/${gate}` })).body.stats.total_requests;
    await until(async () => (await recorded()) === frames, { what: 'a record of each' });
  });

  // The rest is the same behind each server.
  if (adapter !== adapters.at(-1)) return;

  it('takes a gate as the address of check and of enforce do', async () => {
    const client = await open();
    const inRequest = { passport: token, request: { ...order, gate_id: gateId } };
    expect((await client.ask({ gate_id: null, ...inRequest })).decision).toBe('PERMIT');
    expect((await client.ask({ gate_id: null, passport: token, request: order })).decision).toBe('PERMIT');
    const unknown = { passport: token, request: order };
    expect((await client.ask({ gate_id: 'gate_x', ...unknown })).error.code).toBe('gate_not_found');
    for (const wrong of [{}, { gate_id: 5 }, { gate_id: 'x'.repeat(limits.pathParamCharsMax + 1) }]) {
      const { error } = await client.ask({ ...wrong, ...unknown });
      expect(error).toMatchObject({ code: 'invalid_request', param: 'gate_id' });
    }
  });

  it('decides frames in the order in which they came, also behind a passport that has to be verified', async () => {
    const client = await open();
    const limited = await api.createGate({ constraints: { rate_limits: { requests_per_day: 2 } } });
    const strangers = [await api.issuePassport(), await api.issuePassport()];
    await sidecar.caughtUp();
    const passports = [strangers[0]?.jwt, token, strangers[1]?.jwt, token];
    // A unit that comes too late is another answer, on a busy machine.
    sidecar.stopTime();
    onTestFinished(() => sidecar.resume());
    for (const [place, passport] of passports.entries())
      client.send({ id: `${place}`, gate_id: limited.gate_id, passport, request: order });
    await client.answered(4);
    const decided = ['0', '1', '2', '3'].map((id) => client.answer(id).reason);
    expect(decided).toEqual([null, null, 'rate_limit_exceeded', 'rate_limit_exceeded']);
  });

  it('holds up no frame behind frames that wait for the control plane', async () => {
    const client = await open();
    client.send({ id: 'first', ...frame() });
    await client.answered(1);
    const holder = await api.deps.sql.reserve();
    try {
      // Late, not away: calls to a control plane that refuses connections may fail before the next frame.
      await holder.unsafe('BEGIN; LOCK TABLE settlements IN EXCLUSIVE MODE');
      for (let n = 0; n < 5; n++)
        client.send({ id: `keyed-${n}`, ...frame({ ...order, idempotency_key: `${adapter.name}-${n}` }) });
      expect((await client.ask(frame())).decision).toBe('PERMIT');
      expect(client.answers.some(({ id }) => id?.startsWith('keyed'))).toBe(false);
      await client.answered(7);
      for (let n = 0; n < 5; n++) expect(client.answer(`keyed-${n}`).error.code).toBe('overloaded');
    } finally {
      await holder.unsafe('ROLLBACK');
      holder.release();
    }
    let key = 0;
    await until(
      async () => {
        const later = frame({ ...order, idempotency_key: `${adapter.name}-later-${key++}` });
        return (await client.ask(later)).decision === 'PERMIT';
      },
      { what: 'a PERMIT under a key' },
    );
  });

  it('goes on after the clock of its control plane has jumped', async () => {
    const client = await open();
    expect((await client.ask(frame())).decision).toBe('PERMIT');
    sidecar.stopClockAt(Date.now() + 24 * 60 * 60 * 1_000);
    expect((await client.ask(frame())).decision).toBe('PERMIT');
    sidecar.resume();
    await sidecar.ageStateTo(limits.stateAgeL2MsMax + 1_000);
    expect((await client.ask(frame())).decision).toBe('PERMIT');
    sidecar.resume();
    expect(client.closing).toBeNull();
    await sidecar.caughtUp();
  });

  it.each(['deleted', 'of a suspended account'] as const)(
    'closes a stream with 4401 when its key is %s, though nothing is sent',
    async (what) => {
      const account = await api.createAccount({ plan: 'pro' });
      const own = await startTestSidecar({ api, adapter, accountKey: account.key });
      try {
        const { key, keyId } = await api.createKey({ scopes: ['enforcement:check'] }, account.key);
        await until(async () => (await own.check(null, token, order, key)).status === 200, {
          what: 'the key',
        });
        const client = await open(key, own);
        expect((await client.ask({ gate_id: null, passport: token, request: order })).error).toBeUndefined();
        if (what === 'deleted')
          await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}`, key: account.key });
        else
          await api.call({
            method: 'PUT',
            url: `/v1/accounts/${account.accountId}`,
            key: api.operatorKey,
            body: { status: 'suspended' },
          });
        expect(await client.closed()).toEqual({ code: 4401, reason: 'The API key may not ask any more.' });
      } finally {
        await own.close();
        own.removeFolder();
      }
    },
  );
});
