import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { runs } from '../support/base/runs.ts';
import { federationOf, issuerName, newAudience, signedByOthers } from '../support/cases/others.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { startTools } from '../support/service/tools.ts';
import { useSidecar, useStarted } from '../support/service/use-api.ts';

/** What a door makes of a request: a decision, or the code of an error and the place that it names. */
type Outcome = string;

/** Who asks: a token, and whom it names. */
interface Bearer {
  readonly token: string;
  readonly agentId: string;
}

/** Asks about a request, which is given as text: what is wrong with it is wrong in its text alone. */
type Door = (request: string, bearer: Bearer) => Promise<Outcome>;

const tools = useStarted(startTools);
const sidecars = adapters.map((adapter) => useSidecar(() => ({ api: tools.api, adapter })));
let gateId: string;
let own: Bearer;
let mcpToken: string;
const streams: StreamClient[] = [];
const doors = new Map<string, Door>();

beforeAll(async () => {
  const { api } = tools;
  gateId = (await api.createGate()).gate_id;
  const passport = await api.issuePassport();
  own = { token: passport.jwt, agentId: passport.agent_id };
  const key = await api.createKey({ scopes: ['gates:read', 'enforcement:check'] });
  mcpToken = await tools.accessTokenOf(key, 'gates:read');
  for (const sidecar of sidecars) await sidecar.caughtUp();
  for (const { origin } of sidecars) streams.push(await StreamClient.open(origin, api.adminKey));
  openDoors();
});
afterAll(async () => {
  for (const stream of streams) await stream.leave();
});

// biome-ignore lint/suspicious/noExplicitAny: answers of every door.
type Answer = any;

function outcomeOf(answer: Answer): Outcome {
  const error = answer.error ?? answer.context?.error;
  if (error !== undefined) return `${error.code} at ${error.param?.replace(/^context\b/, 'request')}`;
  const decision = answer.context?.decision ?? answer.decision;
  if (decision === 'allow' || decision === 'PERMIT') return 'PERMIT';
  return `BLOCK ${answer.context?.reason ?? answer.reason}`;
}

function openDoors(): void {
  const { api } = tools;
  type Write = (request: string, bearer: Bearer) => string;
  const check: Write = (request, { token }) => `{"passport":${JSON.stringify(token)},"request":${request}}`;
  // Known tokens in a usual layout are read on a way of their own.
  const reversed: Write = (request, { token }) =>
    `{ "request": ${request}, "passport": ${JSON.stringify(token)} }`;
  const batch: Write = (request, bearer) => `{"checks":[${check('{}', own)},${check(request, bearer)}]}`;
  /** Over the bound from which each check of a batch is measured. */
  const long = `{"note":"${'x'.repeat(limits.bodyBytesMax - 5_000)}"}`;
  const largeBatch: Write = (request, bearer) => `{"checks":[${check(long, own)},${check(request, bearer)}]}`;
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
    const single =
      (path: string, write: Write): Door =>
      async (...asked) =>
        outcomeOf((await post(path, write(...asked))).body);
    const second =
      (write: Write): Door =>
      async (...asked) =>
        outcomeOf((await post(`${at}/batch`, write(...asked))).body.results[1]);
    doors.set(`check at ${program}`, single(at, check));
    doors.set(`check in another layout at ${program}`, single(at, reversed));
    doors.set(`enforce at ${program}`, single('/v1/enforce', check));
    doors.set(`a batch at ${program}`, second(batch));
    doors.set(`a large batch at ${program}`, second(largeBatch));
  }
  const asTest: Write = (request, { token }) =>
    `"passport_token":${JSON.stringify(token)},"requested_action":"orders:create","context":${request}`;
  doors.set('a gate test', async (...asked) => {
    const url = `/v1/gates/${gateId}/test`;
    return outcomeOf((await api.call({ method: 'POST', url, body: `{${asTest(...asked)}}` })).body);
  });
  doors.set('test_gate at /mcp', async (...asked) => {
    const args = `{"gate_id":"${gateId}",${asTest(...asked)}}`;
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
    const evaluation: Write = (request, { token, agentId }) =>
      `{"subject":{"type":"agent","id":${JSON.stringify(agentId)},"properties":{"passport":${JSON.stringify(token)}}},` +
      `"action":{"name":"orders:create"},"resource":{"type":"gate","id":"${gateId}"},"context":${request}}`;
    const post = (path: string, body: string) => sidecar.call({ method: 'POST', path, body });
    doors.set(`an evaluation on ${name}`, async (...asked) =>
      outcomeOf((await post('/access/v1/evaluation', evaluation(...asked))).body),
    );
    doors.set(`evaluations on ${name}`, async (...asked) => {
      const body = `{"evaluations":[${evaluation('{}', own)},${evaluation(...asked)}]}`;
      return outcomeOf((await post('/access/v1/evaluations', body)).body.evaluations[1]);
    });
    let frames = 0;
    doors.set(`a stream on ${name}`, async (...asked) => {
      const stream = streams[place] as StreamClient;
      const id = `f${++frames}`;
      stream.send(`{"id":"${id}","gate_id":"${gateId}",${check(...asked).slice(1)}`);
      await stream.has(() => stream.answer(id) !== undefined, `an answer to ${asked[0]}`);
      return outcomeOf(stream.answer(id));
    });
  });
}

/** Each way in, and what came of the request there; where a door does not say what is wrong, `refused`. */
async function throughAll(request: string, bearer = own): Promise<ReadonlyMap<string, Outcome>> {
  const asked = [...doors].map(async ([name, door]) => [name, await door(request, bearer)] as const);
  return new Map(await Promise.all(asked));
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
  ['"size":1e-400', 'request.size'],
  ['"__proto__":{"amount":1}', 'request'],
  ['"name":"\\ud800"', 'request.name'],
  ['"\\udc00":1', 'request'],
  ['"url":"https://api.example.com\\\\@evil.test/"', 'request.url'],
  ['"url":"https:/api.example.com/"', 'request.url'],
  ['"url":"https://user@api.example.com/"', 'request.url'],
  ['"url":"https://127.1/"', 'request.url'],
  ['"domain":"fa\\u00df.example"', 'request.domain'],
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
    { numRuns: runs({ short: 20, long: 2_000 }) },
  );
  expect(Math.min(seen.permitted, seen.refused)).toBeGreaterThan(2);
});

it('all doors make the same of a token of another issuer, which is what trying it says', async () => {
  const { api } = tools;
  const audience = newAudience();
  const claims = { agent_id: '/agent', permissions: '/roles', trust_tier: '/tier', owner: '/team/name' };
  const terms = { permissions: ['orders:create'], trust_tier: 'L2', constraints: {} } as const;
  const federation = { ...federationOf(terms, audience), claims, subjects: ['a*', 'spiffe://x/agents/*'] };
  const { issuer_id: issuerId } = await api.createIssuer({ name: 'Others', federation });
  for (const sidecar of sidecars) await sidecar.caughtUp();
  const nowS = Math.floor(api.deps.clock.now() / secondMs);
  /** Mostly as it is to be. */
  const mostly = <Value>(good: Value, ...odd: readonly unknown[]) =>
    fc.oneof(
      { weight: 12, arbitrary: fc.constant<unknown>(good) },
      { weight: 1, arbitrary: fc.constantFrom(...odd) },
    );
  const names = ['a'.repeat(255), 'spiffe://x/agents/shop', 'auth0|x'];
  const badNames = [
    '',
    'a\n',
    'a'.repeat(256),
    'spiffe://x/agents/../a',
    'spiffe://x/agents//a',
    7,
    null,
    ['a'],
  ];
  const good = { iss: issuerName, aud: audience, agent: 'agent', exp: nowS + 600, iat: nowS - 5 };
  const payloads = fc.record({
    iss: mostly(issuerName, 'https://else.example', [issuerName], undefined),
    aud: mostly(audience, [audience, 'x'], [[audience]], 'x', null, undefined),
    agent: mostly('agent', ...names, ...badNames),
    exp: mostly(nowS + 600, nowS + 600.5, nowS - 60, nowS + 90_000, `${nowS + 600}`, null, undefined),
    iat: mostly(nowS - 5, nowS - 5.5, nowS + 600, nowS - 90_000, 'x', null, undefined),
    nbf: mostly(undefined, nowS - 90, nowS + 600, '0', null),
    tier: mostly('L1', 'L3', 'L4', 1, null, undefined),
    team: mostly({ name: 'a' }, { name: 7 }, { name: '' }, 'a', {}, null, undefined),
    roles: mostly(undefined, 'orders:read x', ['orders:read'], [7], 7, null),
  });
  const headers = fc.record({
    kid: mostly('others', undefined, 'x', 7),
    alg: mostly('EdDSA', 'Ed25519', 'none', 'ES256', 'HS256'),
    typ: mostly('JWT', undefined, 'at+jwt', 'logout+jwt', 'passport+jwt', 'secevent+jwt', 7),
    jku: mostly(undefined, 'https://x.example/keys'),
  });
  const ends = mostly('', '\n', 'A', '=', '.', 'x'.repeat(limits.tokenBytesMax));
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(payloads, headers, ends, async (payload, header, end) => {
      const token = `${signedByOthers(payload, header)}${end}`;
      const bearer = { token, agentId: String(payload.agent) };
      const outcomes = await throughAll(`{${permission}}`, bearer);
      const all = [...new Set(outcomes.values())];
      expect(all, JSON.stringify([payload, header, ...outcomes], null, 1)).toHaveLength(1);
      const url = `/v1/issuers/${issuerId}/try-token`;
      const { reason } = (await api.call({ url, body: { token, gate_id: gateId } })).body;
      expect(reason === null ? 'PERMIT' : `BLOCK ${reason}`, JSON.stringify([payload, header])).toBe(all[0]);
      seen.add(all[0] ?? '');
    }),
    {
      numRuns: runs({ short: 12, long: 2_000 }),
      examples: [
        [good, {}, ''],
        [{ ...good, aud: null }, {}, '\n'],
      ] as never,
    },
  );
  expect([...seen].toSorted()).toEqual(expect.arrayContaining(['BLOCK passport_malformed', 'PERMIT']));
});

describe('the body of any other operation', () => {
  const lossy = [
    ['{"a":1312345678901234561}', 'a'],
    ['{"a":{"b":1,"\\u0062":2}}', 'a.b'],
    ['{"a":1e-400}', 'a'],
  ] as const;
  const bodies = (text: string): readonly (readonly [path: string, body: string, at: string])[] => [
    ['/v1/issuers', `{"name":"Acme","metadata":${text}}`, 'metadata'],
    ['/api/passports', `{"agent_type":"x","metadata":${text}}`, 'metadata'],
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
