import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/http-client.ts';
import { type ArrivedCall, type HttpLink, httpLink, type LinkAnswer } from '../support/http-link.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { testDatabaseServer } from '../support/postgres.ts';
import { bundledPrograms } from '../support/programs.ts';
import { until, untilAnswer } from '../support/until.ts';

const order = { permission_key: 'orders:create' };
const json = (status: number, body: object): LinkAnswer => ({
  status,
  type: 'application/json',
  body: Buffer.from(JSON.stringify(body)),
});

/** How a control plane says that it has not begun with a call. */
const turnedAway: Readonly<Record<string, (call: ArrivedCall) => LinkAnswer>> = {
  overloaded: () => json(503, { error: { code: 'overloaded', message: 'Too busy.', status: 503 } }),
  late: ({ body }) => {
    const { settlements } = JSON.parse(body.toString());
    return json(200, { answers: settlements.map(() => ({ kind: 'late' })) });
  },
};

/**
 * What is between a sidecar and its control planes may deliver a call to two of them. One has no room and
 * says that it has not begun; the other one settles it, when the client has been told 503.
 */
describe('a settlement of which another delivery says something else', () => {
  let world: Installation;
  let server: Awaited<ReturnType<typeof testDatabaseServer>>;
  let controlPlane: Running;
  let sidecar: Running;
  let link: HttpLink;
  let answerInstead: ((call: ArrivedCall) => LinkAnswer) | null = null;
  /** In place of the answer to a call that was delivered. */
  let answerAfter: ((call: ArrivedCall) => LinkAnswer) | null = null;
  const again: (() => Promise<LinkAnswer | null>)[] = [];

  beforeAll(async () => {
    server = await testDatabaseServer();
    world = await installation(await bundledPrograms(), { databaseUrl: server.url });
    controlPlane = await world.startControlPlane();
    link = await httpLink(
      () => controlPlane.origin,
      async (arrived, deliver) => {
        if (answerAfter !== null && arrived.path === '/v1/sync/settlements') {
          await deliver(arrived);
          return answerAfter(arrived);
        }
        if (answerInstead === null || arrived.path !== '/v1/sync/settlements') return deliver(arrived);
        again.push(() => deliver(arrived));
        return answerInstead(arrived);
      },
    );
    sidecar = await world.startSidecar({ CONTROL_PLANE_URL: link.origin });
  });
  afterAll(async () => {
    await world?.close();
    await link?.close();
    await server?.stop();
  });

  it.each(Object.keys(turnedAway))('permits nothing after the word %s', async (word) => {
    const gateId = await world.createGate({ constraints: { rate_limits: { requests_per_day: 1 } } });
    const { token } = await world.issuePassport();
    const check = (request: object, passport = token) =>
      call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport, request },
      });
    await until(async () => (await check(order, 'no passport')).status === 200, { what: 'the gate' });

    answerInstead = turnedAway[word] ?? null;
    const refused = await check({ ...order, idempotency_key: word });
    expect([refused.status, refused.body.error.code]).toEqual([503, 'overloaded']);
    answerInstead = null;
    const repeats = await Promise.all(again.splice(0).map((deliver) => deliver()));
    expect(repeats.map((repeat) => repeat?.status)).toContain(200);

    // The unit is free again, for one other request and no more.
    const isPassing = ({ status, body }: Awaited<ReturnType<typeof check>>) =>
      status !== 200 || body.reason === 'quota_unavailable';
    const decided = (request: object) =>
      untilAnswer(
        () => check(request),
        (reply) => !isPassing(reply),
        { what: 'a decision' },
      );
    const isFree = async () => (await decided(order)).body.decision === 'PERMIT';
    await until(isFree, { what: 'the unit of the request that was refused' });
    expect((await decided({ ...order, idempotency_key: word })).body.reason).toBe('rate_limit_exceeded');
    const recorded = async (): Promise<readonly Attestation[]> =>
      (await world.api('GET', `/attestations?gate_id=${gateId}&limit=500`)).body.attestations;
    const isRecorded = async () => (await recorded()).some(({ reason }) => reason === 'rate_limit_exceeded');
    await until(isRecorded, { what: 'the last record' });
    const all = await recorded();
    const voided = new Set(all.map(({ refers_to }) => refers_to));
    const standing = all.filter(
      ({ id, decision, resolution }) => decision === 'PERMIT' && resolution === null && !voided.has(id),
    );
    expect(standing).toHaveLength(1);
  });

  it('leaves a BLOCK in its place a record of its own, though it was settled before', async () => {
    const gateId = await world.createGate();
    const { token } = await world.issuePassport();
    const check = (request: object, passport = token) =>
      call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport, request },
      });
    await until(async () => (await check(order, 'no passport')).status === 200, { what: 'the gate' });

    answerAfter = ({ body }) => {
      const { settlements } = JSON.parse(body.toString());
      return json(200, {
        answers: settlements.map(() => ({ kind: 'blocked', reason: 'passport_revoked' })),
      });
    };
    const { body } = await check({ ...order, idempotency_key: 'blocked' });
    answerAfter = null;
    expect(body).toMatchObject({ decision: 'BLOCK', reason: 'passport_revoked' });
    const recorded = async () =>
      (await world.api('GET', `/attestations?gate_id=${gateId}&limit=500`)).body.attestations;
    const voids = async () =>
      (await recorded()).filter(({ resolution }: Attestation) => resolution === 'voided');
    await until(async () => (await voids()).length === 1, { what: 'the void of the PERMIT' });
    const record = () => world.api('GET', `/attestations/${body.attestation_id}`);
    await until(async () => (await record()).status === 200, { what: 'the record of the BLOCK' });
    expect((await record()).body).toMatchObject({ decision: 'BLOCK', reason: 'passport_revoked' });
  });
});

interface Attestation {
  readonly id: string;
  readonly decision: string;
  readonly reason: string | null;
  readonly resolution: string | null;
  readonly refers_to: string | null;
}
