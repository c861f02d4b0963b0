import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { runs } from '../support/runs.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestEmbedded, startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { StreamClient } from '../support/stream-client.ts';
import { startTools, type Tools } from '../support/tools.ts';

/** What a door makes of a request: a decision, or the code of an error and the place that it names. */
type Outcome = string;

/** Asks about a request, which is given as text: what is wrong with it is wrong in its text alone. */
type Door = (request: string) => Promise<Outcome>;

let tools: Tools;
let gateId: string;
let jwt: string;
let agentId: string;
let mcpToken: string;
let embedded: Awaited<ReturnType<typeof startTestEmbedded>>;
const sidecars: TestSidecar[] = [];
const streams: StreamClient[] = [];
const doors = new Map<string, Door>();

beforeAll(async () => {
  tools = await startTools();
  const { api } = tools;
  for (const adapter of adapters) sidecars.push(await startTestSidecar({ api, adapter }));
  embedded = await startTestEmbedded({ api });
  gateId = (await api.createGate()).gate_id;
  ({ jwt, agent_id: agentId } = await api.issuePassport());
  const key = await api.createKey({ scopes: ['gates:read', 'enforcement:check'] });
  mcpToken = await tools.accessTokenOf(key, 'gates:read');
  for (const sidecar of [...sidecars, embedded]) await sidecar.caughtUp();
  for (const { origin } of sidecars) streams.push(await StreamClient.open(origin, api.adminKey));
  openDoors();
});
afterAll(async () => {
  for (const stream of streams) await stream.leave();
  for (const sidecar of [embedded, ...sidecars]) {
    await sidecar?.close();
    sidecar?.removeFolder();
  }
  await tools?.close();
});

// biome-ignore lint/suspicious/noExplicitAny: answers of every door.
type Answer = any;

function outcomeOf(answer: Answer): Outcome {
  const error = answer.error ?? answer.context?.error;
  if (error !== undefined) return `${error.code} at ${error.param?.replace(/^context\b/, 'request')}`;
  const decision = answer.context?.decision ?? answer.decision;
  return decision === 'allow' ? 'PERMIT' : decision;
}

function openDoors(): void {
  const { api } = tools;
  const check = (request: string) => `{"passport":"${jwt}","request":${request}}`;
  // Known tokens in a usual layout are read on a way of their own.
  const reversed = (request: string) => `{ "request": ${request}, "passport": "${jwt}" }`;
  const batch = (request: string) => `{"checks":[${check('{}')},${check(request)}]}`;
  /** Over the bound from which each check of a batch is measured. */
  const largeBatch = (request: string) =>
    `{"checks":[${check(`{"note":"${'x'.repeat(limits.bodyBytesMax - 5_000)}"}`)},${check(request)}]}`;
  const programs = [
    ['the control plane', (path: string, body: string) => api.call({ method: 'POST', url: path, body })],
    ...sidecars.map(
      (sidecar, place) =>
        [
          `a sidecar on ${adapters[place]?.name}`,
          (path: string, body: string) => sidecar.call({ method: 'POST', path, body }),
        ] as const,
    ),
  ] as const;
  for (const [program, post] of programs) {
    const at = `/v1/gates/${gateId}/check`;
    const single = (path: string, write: (request: string) => string) => async (request: string) =>
      outcomeOf((await post(path, write(request))).body);
    const second = (write: (request: string) => string) => async (request: string) =>
      outcomeOf((await post(`${at}/batch`, write(request))).body.results[1]);
    doors.set(`check at ${program}`, single(at, check));
    doors.set(`check in another layout at ${program}`, single(at, reversed));
    doors.set(`enforce at ${program}`, single('/v1/enforce', check));
    doors.set(`a batch at ${program}`, second(batch));
    doors.set(`a large batch at ${program}`, second(largeBatch));
  }
  doors.set('a gate test', async (request) =>
    outcomeOf(
      (
        await api.call({
          method: 'POST',
          url: `/v1/gates/${gateId}/test`,
          body: `{"passport_token":"${jwt}","requested_action":"orders:create","context":${request}}`,
        })
      ).body,
    ),
  );
  doors.set('test_gate at /mcp', async (request) => {
    const args = `{"gate_id":"${gateId}","passport_token":"${jwt}","requested_action":"orders:create","context":${request}}`;
    const answer: Answer = await (
      await tools.post(
        mcpToken,
        `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"test_gate","arguments":${args}}}`,
      )
    ).json();
    if (answer.error !== undefined || answer.result.isError === true) return 'refused';
    return outcomeOf(answer.result.structuredContent);
  });
  sidecars.forEach((sidecar, place) => {
    const name = adapters[place]?.name;
    const evaluation = (request: string) =>
      `{"subject":{"type":"agent","id":"${agentId}","properties":{"passport":"${jwt}"}},` +
      `"action":{"name":"orders:create"},"resource":{"type":"gate","id":"${gateId}"},"context":${request}}`;
    const post = (path: string, body: string) => sidecar.call({ method: 'POST', path, body });
    doors.set(`an evaluation on ${name}`, async (request) =>
      outcomeOf((await post('/access/v1/evaluation', evaluation(request))).body),
    );
    doors.set(`evaluations on ${name}`, async (request) => {
      const body = `{"evaluations":[${evaluation('{}')},${evaluation(request)}]}`;
      return outcomeOf((await post('/access/v1/evaluations', body)).body.evaluations[1]);
    });
    let frames = 0;
    doors.set(`a stream on ${name}`, async (request) => {
      const stream = streams[place] as StreamClient;
      const id = `f${++frames}`;
      stream.send(`{"id":"${id}","gate_id":"${gateId}","passport":"${jwt}","request":${request}}`);
      await stream.has(() => stream.answer(id) !== undefined, `an answer to ${request}`);
      return outcomeOf(stream.answer(id));
    });
  });
}

/** Each way in, and what came of the request there; where a door does not say what is wrong, `refused`. */
async function throughAll(request: string): Promise<ReadonlyMap<string, Outcome>> {
  const outcomes = new Map<string, Outcome>();
  for (const [name, door] of doors) outcomes.set(name, await door(request));
  return outcomes;
}

const permission = '"permission_key":"orders:create"';
const padding = `"note":"${'y'.repeat(30_000)}"`;

const refused: readonly (readonly [text: string, param: string])[] = [
  ['"account_id":1312345678901234561', 'request.account_id'],
  ['"order":{"ids":[1,1312345678901234689]}', 'request.order.ids.1'],
  ['"rate":0.12345678901234567', 'request.rate'],
  ['"amount":5,"amount":5', 'request.amount'],
  ['"to":"alice","\\u0074o":"mallory"', 'request.to'],
  ['"order":{"to":1,"to":2}', 'request.order.to'],
  // As long as its canonical form.
  ['"a":1,"a":1e8', 'request.a'],
  ['"size":1e400', 'request.size'],
  ['"size":-1e400', 'request.size'],
  ['"size":1e-400', 'request.size'],
  ['"__proto__":{"amount":1}', 'request'],
  ['"order":{"__proto__":1}', 'request.order'],
  ['"name":"\\ud800"', 'request.name'],
  ['"\\udc00":1', 'request'],
  ['"url":"https://api.example.com\\\\@evil.test/"', 'request.url'],
  ['"url":"https:/api.example.com/"', 'request.url'],
  ['"url":"https://user@api.example.com/"', 'request.url'],
  ['"url":"https://127.1/"', 'request.url'],
  ['"domain":"fa\\u00df.example"', 'request.domain'],
  ['"domain":"\\u03b2\\u03cc\\u03bb\\u03bf\\u03c2.example"', 'request.domain'],
  ['"domain":"\\u0646\\u200c\\u0646.example"', 'request.domain'],
  ['"domain":"0177.0.0.1"', 'request.domain'],
];

describe('a request that two readers could read differently', () => {
  const cases = refused.flatMap(([members, param]) => [
    [members, param, ''] as const,
    [members, param, `${padding},`] as const,
  ]);
  it.each(cases)('%s is refused at every door', async (members, param, more) => {
    for (const [name, outcome] of await throughAll(`{${more}${permission},${members}}`)) {
      if (name === 'test_gate at /mcp') expect(outcome, name).toBe('refused');
      else expect(outcome, name).toBe(`invalid_request at ${param}`);
    }
  });

  it('is refused at every door where it is nested too deep', async () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    for (const [name, outcome] of await throughAll(`{${permission},"a":${nested(limits.jsonDepthMax)}}`)) {
      expect(outcome, name).toMatch(/^(invalid_request|refused)/);
    }
  });
});

it('every door takes what every reader reads alike', async () => {
  const members = [
    '"rate":0.1,"a":1.10,"b":3.3000000000000003,"c":1E2,"d":-0,"e":1e21,"f":[0e9]',
    '"id":"1312345678901234561","order":{"id":1,"lines":[{"id":1},{"id":1}]}',
    '"name":"\\u00e9 \\ud83d\\ude00","text":"\\"a\\":1,\\"a\\":1e400"',
  ];
  for (const each of members) {
    for (const [name, outcome] of await throughAll(`{ ${permission} , ${each} }`)) {
      expect(outcome, `${name}: ${each}`).toBe('PERMIT');
    }
  }
});

it('all doors make the same of a request', async () => {
  const numbers = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
    fc.stringMatching(/^-?(0|[1-9]\d{0,20})(\.\d{1,19})?(e[+-]?\d{1,3})?$/),
  );
  const values = fc.oneof(
    numbers,
    fc.json({ maxDepth: 2 }),
    fc.constantFrom('"\\ud800"', '{"__proto__":1}', '[[]]'),
  );
  const names = fc.constantFrom('a', '\\u0061', 'b', 'note', 'ü', '__proto__');
  const requests = fc
    .tuple(fc.array(fc.tuple(names, values), { maxLength: 4 }), fc.constantFrom('', ' '))
    .map(([members, blank]) =>
      [permission, ...members.map(([name, text]) => `"${name}":${blank}${text}`)].join(`,${blank}`),
    )
    .map((members) => `{${members}}`);
  const seen = { permitted: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(requests, async (request) => {
      const outcomes = await throughAll(request);
      const kinds = new Set(
        [...outcomes.values()].map((outcome) => (outcome === 'PERMIT' ? outcome : 'refused')),
      );
      expect([...kinds], JSON.stringify([...outcomes], null, 1)).toHaveLength(1);
      seen[kinds.has('PERMIT') ? 'permitted' : 'refused']++;
    }),
    { numRuns: runs({ short: 40, long: 2_000 }) },
  );
  expect(Math.min(seen.permitted, seen.refused)).toBeGreaterThan(2);
});

it('a program in the same process has no such text: its numbers are doubles, and its names are one each', async () => {
  // biome-ignore lint/correctness/noPrecisionLoss: it is the loss that is shown.
  const request = { permission_key: 'orders:create', account_id: 1312345678901234561 };
  expect((await embedded.check(gateId, jwt, request)).body.decision).toBe('PERMIT');
  expect((await embedded.check(gateId, jwt, { ...request, account_id: 1312345678901234561n })).status).toBe(
    400,
  );
});

describe('the body of any other operation', () => {
  const lossy = [
    ['{"a":1312345678901234561}', 'a'],
    ['{"a":{"b":1,"\\u0062":2}}', 'a.b'],
    ['{"a":1e-400}', 'a'],
  ] as const;
  const bodies = (text: string): readonly (readonly [path: string, body: string, at: string])[] => [
    ['/v1/issuers', `{"name":"Acme","metadata":${text}}`, 'metadata'],
    ['/v1/gates', `{"name":"Shop","trust_level":"L1","metadata":${text}}`, 'metadata'],
    ['/v1/passports', `{"agent_id":"agent-1","permissions":["a:b"],"metadata":${text}}`, 'metadata'],
    [
      `/v1/gates/${gateId}/catalog`,
      `{"version":"1","entries":[{"key":"a:b","metadata":${text}}]}`,
      'entries.0.metadata',
    ],
    ['/api/passports', `{"agent_type":"x","metadata":${text}}`, 'metadata'],
    ['/v1/webhooks', `{"url":"https://example.com/","events":[],"metadata":${text}}`, 'metadata'],
  ];
  it.each(lossy)('%s is refused, and keeps no idempotency key', async (text, param) => {
    const { api } = tools;
    for (const [url, body, at] of bodies(text)) {
      const headers = { 'idempotency-key': `${url}${param}` };
      for (let time = 0; time < 2; time++) {
        const reply = await api.call({ method: 'POST', url, body, headers });
        expect(reply.status, url).toBe(400);
        expect(reply.body.error, url).toMatchObject({ code: 'invalid_request', param: `${at}.${param}` });
        expect(reply.headers['idempotent-replayed']).toBeUndefined();
      }
    }
    const patch = { method: 'PUT', url: `/v1/gates/${gateId}`, body: `{"name":"a","name":"b"}` };
    expect((await api.call(patch)).body.error).toMatchObject({ code: 'invalid_request', param: 'name' });
  });

  it('is refused where a client registers', async () => {
    const uri = 'https://app.example.com/cb';
    const response = await tools.fetch(`${tools.origin}/oauth/register`, {
      method: 'POST',
      body: `{"redirect_uris":["https://evil.example/cb"],"redirect_uris":["${uri}"]}`,
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: 'invalid_client_metadata' });
  });
});
