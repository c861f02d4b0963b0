import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits as modelLimits } from '../../shared/model/limits.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { type Installation, installation } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

type Place = 'sidecar' | 'another sidecar' | 'control plane' | 'another control plane';
type Way = 'alone' | 'in a batch' | 'on a stream';

/** Two control planes and two sidecars, as processes on one database. */
let all: Installation;
let origins: Readonly<Record<Place, string>>;
let database: Awaited<ReturnType<typeof testDatabase>>;

beforeAll(async () => {
  database = await testDatabase();
  all = await installation(await bundledPrograms(), { databaseUrl: database.url });
  const [control, other] = [await all.startControlPlane(), await all.startControlPlane()];
  const sidecars = [
    await all.startSidecar(),
    await all.startSidecar({ CONTROL_PLANE_URL: other.origin }),
  ] as const;
  origins = {
    sidecar: sidecars[0].origin,
    'another sidecar': sidecars[1].origin,
    'control plane': control.origin,
    'another control plane': other.origin,
  };
});
afterAll(async () => {
  await all?.close();
  await database?.drop();
});

/** Known to every program. */
async function gateWith(constraints: object): Promise<{ readonly gateId: string; readonly token: string }> {
  const gateId = await all.createGate({ constraints });
  const { token } = await all.issuePassport();
  for (const place of ['sidecar', 'another sidecar'] as const) {
    const isKnown = async () => (await checkAt(place, gateId, token, {})).status === 200;
    await until(isKnown, { what: `the gate at the ${place}` });
  }
  return { gateId, token };
}

const checkAt = (place: Place, gateId: string, passport: string, request: object): Promise<Reply> =>
  call(`${origins[place]}/v1/gates/${gateId}/check`, {
    method: 'POST',
    key: all.adminKey,
    body: { passport, request },
  });

interface Asked {
  readonly gateId: string;
  readonly token: string;
  readonly request: object;
  readonly count: number;
}

/** So many copies of a request, at once. What each of them is answered: a decision or an error. */
async function ask(
  place: Place,
  way: Way,
  { gateId, token, request, count }: Asked,
): Promise<Reply['body'][]> {
  const copies = Array.from({ length: count }, () => ({ passport: token, request }));
  if (way === 'alone')
    return (await Promise.all(copies.map(() => checkAt(place, gateId, token, request)))).map(
      ({ body }) => body,
    );
  if (way === 'in a batch') {
    const reply = await call(`${origins[place]}/v1/gates/${gateId}/check/batch`, {
      method: 'POST',
      key: all.adminKey,
      body: { checks: copies },
    });
    return reply.body.results;
  }
  const client = await StreamClient.open(origins[place], all.adminKey);
  try {
    copies.forEach((copy, n) => {
      client.send({ id: `${n}`, gate_id: gateId, ...copy });
    });
    await until(() => client.answers.length === count, { what: 'the answers of the stream' });
    return client.answers.map(({ id: _, ...answer }) => answer);
  } finally {
    client.socket.terminate();
  }
}

/**
 * Asks at both places at once, and again where the time was over: a busy machine is no reason for another
 * answer. Nobody is told to come again before that time is over.
 */
async function askBoth(
  [one, way, other, otherWay]: Meeting,
  asked: Asked,
): Promise<readonly Reply['body'][]> {
  for (let tries = 0; ; tries++) {
    const startMs = performance.now();
    const timed = async (answers: Promise<Reply['body'][]>) =>
      (await answers).map((answer) => ({ answer, tookMs: performance.now() - startMs }));
    const all = (await Promise.all([timed(ask(one, way, asked)), timed(ask(other, otherWay, asked))])).flat();
    const late = all.filter(({ answer }) => answer.error?.code === 'overloaded');
    for (const { tookMs } of late) expect(tookMs).toBeGreaterThan(0.9 * modelLimits.quotaWaitMsMax);
    if (late.length === 0 || tries === 5) return all.map(({ answer }) => answer);
  }
}

const order = { permission_key: 'orders:create', amount: 4 };
let keys = 0;

type Meeting = readonly [Place, Way, Place, Way];
const meetings: readonly Meeting[] = [
  ['sidecar', 'alone', 'another sidecar', 'alone'],
  ['control plane', 'alone', 'another control plane', 'alone'],
  ['sidecar', 'in a batch', 'another sidecar', 'on a stream'],
  ['another sidecar', 'on a stream', 'control plane', 'in a batch'],
];
const limits = {
  'requests of a day': { rate_limits: { requests_per_day: 1 } },
  'money of a month': { spend_limits: { monthly_usd: 4 } },
  'requests of a passport': { rate_limits: { requests_per_hour: 1, per: 'passport' } },
} as const;

describe.each(meetings)(
  'copies of one key at the last units of a limit, at the %s %s and at the %s %s,',
  (...met) => {
    it.each(Object.entries(limits))('are all answered the one PERMIT: %s', async (_, constraints) => {
      const { gateId, token } = await gateWith(constraints);
      for (const count of [1, 6]) {
        const asked = { gateId, token, request: { ...order, idempotency_key: 'the only one' }, count };
        const answers = await askBoth(met, asked);
        expect(answers.map(({ decision, error }) => decision ?? error)).toEqual(answers.map(() => 'PERMIT'));
        expect(new Set(answers.map(({ attestation_id }) => attestation_id)).size).toBe(1);
      }
    });

    it('are all answered the one SUSPEND', async () => {
      const constraints = { spend_limits: { daily_usd: 4 }, approvals: { above_usd: 1 } };
      const { gateId, token } = await gateWith(constraints);
      const asked = { gateId, token, request: { ...order, idempotency_key: `${++keys}` }, count: 4 };
      const answers = await askBoth(met, asked);
      expect(answers.map(({ decision, error }) => decision ?? error)).toEqual(answers.map(() => 'SUSPEND'));
      expect(new Set(answers.map(({ approval_id }) => approval_id)).size).toBe(1);
    });
  },
);

it('two copies at two programs, eight times, and thirty at once: none is told to come again', async () => {
  for (const count of [...Array.from({ length: 8 }, () => 1), 15]) {
    const { gateId, token } = await gateWith(limits['requests of a day']);
    const asked = { gateId, token, request: { ...order, idempotency_key: `${++keys}` }, count };
    const answers = await askBoth(['sidecar', 'alone', 'another sidecar', 'alone'], asked);
    expect(answers.map(({ decision, error }) => decision ?? error)).toEqual(answers.map(() => 'PERMIT'));
  }
});
