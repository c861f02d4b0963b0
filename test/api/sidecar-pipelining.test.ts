import { beforeAll, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { RawConnection } from '../support/base/raw-http.ts';
import { adapters, request } from '../support/peers/server-under-test.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const order = { permission_key: 'orders:create' };
const api = useApi();
let gateId: string;
/** One on each server, by its name. */
const sidecars = new Map(
  adapters.map((adapter) => [
    adapter.name as string,
    useSidecar(() => ({ api, adapter, quotaWaitMs: 10_000 })),
  ]),
);
beforeAll(async () => {
  gateId = (await api.createGate({ constraints: { rate_limits: { requests_per_day: 100 } } })).gate_id;
});

/** What that server answers to these bodies of `check`, sent in one packet. */
async function answersTo(server: string, bodies: readonly object[]) {
  const sidecar = must(sidecars.get(server) ?? null, 'it runs');
  await sidecar.caughtUp();
  const client = await RawConnection.open(Number(new URL(sidecar.origin).port));
  const texts = bodies.map((body) =>
    request(`POST /v1/gates/${gateId}/check`, {
      headers: [`Authorization: Bearer ${api.adminKey}`, 'Content-Type: application/json'],
      body: JSON.stringify(body),
    }),
  );
  await client.send(texts.join(''));
  const answers = [];
  for (const _body of bodies) answers.push(must(await client.next(), 'an answer to each'));
  await client.leave();
  return answers;
}

it('answers pipelined requests in order on node:http while each waits for a worker and a lease', async () => {
  const tokens = [await api.issuePassport(), await api.issuePassport(), await api.issuePassport()];
  const [first, second, third] = tokens.map(({ jwt }) => jwt);
  const answers = await answersTo('node:http', [
    { passport: first, request: order },
    { passport: second, request: { permission_key: 'orders:delete' } },
    { passport: third, request: order },
    { passport: 'no token', request: order },
  ]);
  const said = answers.map(({ body }) => JSON.parse(body)).map(({ decision, reason }) => reason ?? decision);
  expect(said).toEqual(['PERMIT', 'permission_not_granted', 'PERMIT', 'passport_malformed']);
});

it.each(adapters)('answers pipelined requests in order on $name where none is decided', async ({ name }) => {
  const answers = await answersTo(name, [{ request: order }, { passport: 7 }, { request: order }]);
  expect(answers.map(({ status }) => status)).toEqual([400, 400, 400]);
});
