import type { ServerResponse } from 'node:http';
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { webhooksLimits } from '../../control-plane/webhooks/limits.ts';
import { idTime } from '../../shared/model/ids.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';
import { deliverer, type Endpoint, subscribe } from '../support/service/webhooks.ts';

/** Long queues of endpoints that answer fast: more is claimed than there are attempts at once. */
const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
let receiver: Receiver;
let running: { stop(): Promise<void> } | null;

beforeAll(() => {
  // What has failed comes again when a test says so. The clock of the database must not overtake this one.
  api.advance(30 * minuteMs);
  api.stopClock();
});
beforeEach(async () => {
  receiver = await startReceiver();
  running = null;
});
afterEach(async () => {
  // What hangs there would be waited for.
  await receiver.close();
  await running?.stop();
});

let queued = 0;
/** Puts so many deliveries in the queue of the endpoint, each of an event of its own. */
async function queue(hook: Endpoint, count: number): Promise<void> {
  const { sql } = api.deps;
  const first = queued + 1;
  queued += count;
  const rows = sql`
    SELECT ${idTime(api.deps.clock.now())} || lpad(i::text, 16, '0') AS n, i FROM generate_series(${first}::int, ${queued}::int) AS i`;
  await sql`INSERT INTO webhook_events SELECT 'evt_' || n, 'gate.created', '{}' FROM (${rows}) AS made`;
  await sql`
    INSERT INTO webhook_deliveries (delivery_id, webhook_id, event_id, status, attempts, tries, next_attempt_at_ms, created_at_ms)
    SELECT 'dlv_' || n, ${hook.id}, 'evt_' || n, 'pending', 0, 0, i, 1 FROM (${rows}) AS made`;
}

async function hookAt(url: string): Promise<Endpoint> {
  const { key } = await api.createAccount();
  return subscribe(api, { url, events: ['gate.created'] }, key);
}

const figure = async (hook: Endpoint, what: string): Promise<number> => {
  const [row] = await api.deps.sql.unsafe(
    `SELECT ${what} AS n FROM webhook_deliveries d LEFT JOIN webhook_attempts a USING (delivery_id)
      WHERE d.webhook_id = $1`,
    [hook.id],
  );
  return Number(row?.['n']);
};
const succeeded = (hook: Endpoint) =>
  figure(hook, `count(DISTINCT d.delivery_id) FILTER (WHERE d.status = 'succeeded')`);
const held = (hook: Endpoint) => figure(hook, 'count(*) FILTER (WHERE d.claimed_by IS NOT NULL)');
const idsAt = (path: string) =>
  receiver.received.filter((each) => each.path === path).map(({ headers }) => String(headers['webhook-id']));

const many = 400;

it('many deliveries of a fast endpoint are recorded many in one transaction', async () => {
  const hook = await hookAt(receiver.url);
  await queue(hook, many);
  running = deliverer(api);
  await until(async () => (await succeeded(hook)) === many, { what: 'all deliveries' });
  expect(new Set(idsAt('/hook')).size).toBe(many);
  expect(receiver.received).toHaveLength(many);
  const transactions = await figure(hook, 'count(DISTINCT a.xmin::text)');
  // Each takes what came while the one before it was written: the busier the machine, the fewer.
  expect(transactions).toBeLessThan(many / 4);
  // The longest due first: none is overtaken by more than the attempts at once.
  const places = idsAt('/hook').map((id, place) =>
    Math.abs(Number(id.slice(-16)) - queued + many - 1 - place),
  );
  expect(Math.max(...places)).toBeLessThan(4 * webhooksLimits.webhookConcurrencyMax);
});

it('an endpoint that was fast and hangs keeps only its attempts, and holds up no other', async () => {
  const hanging: ServerResponse[] = [];
  let answered = 0;
  receiver.answer((response, { path }) => {
    if (path === '/slow' && ++answered > 100) hanging.push(response);
    else response.writeHead(204).end();
  });
  const slow = await hookAt(receiver.url.replace('/hook', '/slow'));
  const fast = await hookAt(receiver.url);
  await queue(slow, many);
  running = deliverer(api);
  await until(() => hanging.length > 0, { what: 'an attempt that hangs' });
  await queue(fast, many);
  await until(async () => (await succeeded(fast)) === many, { what: 'all of the fast one' });
  expect(hanging.length).toBeLessThanOrEqual(webhooksLimits.webhookConcurrencyMax);
  const given = async () =>
    (await succeeded(slow)) === 100 && (await held(slow)) <= webhooksLimits.webhookConcurrencyMax;
  await until(given, { what: 'the return of what waited' });
});

it('a replica that stops gives back deliveries claimed ahead, untouched', async () => {
  const hanging: ServerResponse[] = [];
  const answer = (response: ServerResponse) => void response.writeHead(204).end();
  receiver.answer((response) => {
    if (receiver.received.length > 100) hanging.push(response);
    else answer(response);
  });
  const hook = await hookAt(receiver.url);
  await queue(hook, many);
  running = deliverer(api);
  await until(async () => (await held(hook)) > webhooksLimits.webhookConcurrencyMax, {
    what: 'a claim ahead',
  });
  const stopped = running.stop();
  receiver.answer(answer);
  for (const response of hanging) answer(response);
  await stopped;
  running = null;
  expect(await held(hook)).toBe(0);
  expect(await succeeded(hook)).toBeLessThan(many);
  expect(
    await figure(hook, `count(*) FILTER (WHERE d.status = 'pending' AND d.next_attempt_at_ms > ${queued})`),
  ).toBe(0);
});
