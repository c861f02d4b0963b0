import { beforeAll, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { LeaseCounter } from '../../shared/wire/sync/lease-call.ts';
import type { Reply } from '../support/service/api.ts';
import { hashOf } from '../support/service/approvals.ts';
import { type LeaseHolder, leaseHolder, ofGate, ofPassport, wish } from '../support/service/lease-holder.ts';
import { settlementCall } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * How much of a limit is used says how well a business goes. A sidecar of another account, which knows the
 * ids and a token of its own, is told of no window that its own requests do not draw on.
 */
const api = useApi();
let stranger: LeaseHolder;
let strangersGate: GateId;
let strangersPassport: Reply['body'];
/** What others use of the gate and of the passport. */
let gateId: GateId;
let passport: Reply['body'];

beforeAll(async () => {
  const { key } = await api.createAccount({ name: 'Stranger' });
  stranger = await leaseHolder(api, { key });
  strangersGate = (await api.createGate({ constraints: { rate_limits: { requests_per_day: 5 } } }, key))
    .gate_id;
  const daily = { rate_limits: { requests_per_day: 50 }, spend_limits: { daily_usd: 100 } };
  strangersPassport = await api.issuePassport({ constraints: daily });
  gateId = (await api.createGate({ constraints: daily })).gate_id;
  passport = await api.issuePassport({ constraints: daily });
  const honest = await leaseHolder(api);
  await honest.lease([
    wish(ofGate('gate_rate', gateId), 'day', 30),
    wish(ofGate('gate_spend', gateId), 'day', 40),
    wish(ofPassport('passport_rate', passport), 'day', 20),
  ]);
});

const unseen = () => ({ ...passport, jwt: `${passport.jwt}x` }) as { passport_id: never; jwt: string };
const countersOfOthers: readonly (readonly [string, () => LeaseCounter])[] = [
  ['requests of a gate', () => ofGate('gate_rate', gateId)],
  ['money of a gate', () => ofGate('gate_spend', gateId)],
  ['requests of a passport of which it has not seen the token', () => ofPassport('passport_rate', unseen())],
];

it.each(countersOfOthers)('no lease call says how much is lent: %s', async (_what, counter) => {
  const [grant] = await stranger.lease([wish(counter(), 'day', 50)]);
  expect(grant).toMatchObject({ granted: 0, limit: null, leased: 0 });
  expect(grant).not.toHaveProperty('lent');
});

it.each([
  ...countersOfOthers,
  [
    'requests of another passport of which it has seen the token',
    () => ofPassport('passport_rate', passport),
  ],
  ['a counter that names no gate', () => ({ ...ofGate('gate_rate', gateId), gate_id: null })],
] as const)('no look-up says whether there is room: %s', async (_what, counter) => {
  for (const leasedMax of [0, 49]) {
    const { status, answer } = await lookUp({ ...windowOf(counter()), leased_max: leasedMax });
    expect(status).toBe(200);
    expect(answer).toMatchObject({ kind: 'refused', message: expect.stringContaining('short') });
  }
});

it('a look-up says so of each window that its request draws on', async () => {
  const drawnOn = [
    ofGate('gate_rate', strangersGate),
    ofPassport('gate_rate', strangersPassport, strangersGate),
    ofPassport('passport_rate', strangersPassport),
    ofPassport('passport_spend', strangersPassport),
  ];
  for (const counter of drawnOn) {
    const { answer } = await lookUp({ ...windowOf(counter), leased_max: 0 });
    expect(answer).toEqual({ kind: 'none', may_change: false });
  }
});

it('a number that no counter reaches is refused, and harms no other settlement', async () => {
  const short = { ...windowOf(ofGate('gate_rate', strangersGate)), leased_max: 1e300 };
  expect((await lookUp(short)).answer).toMatchObject({ kind: 'refused' });
});

const windowOf = (counter: LeaseCounter) => ({
  ...counter,
  window: 'day',
  starts_at_ms: windowAt('day', api.deps.clock.now()).startsAtMs,
});

async function lookUp(short: object): Promise<{ status: number; answer: Reply['body'] }> {
  const { status, body } = await api.call({
    url: '/v1/sync/settlements',
    key: stranger.sidecar.key,
    body: settlementCall({
      sidecar_id: stranger.sidecar.sidecarId,
      connection_id: stranger.sidecar.connectionId,
      ...{ holder: stranger.holder, kind: 'look_up', passport_id: strangersPassport.passport_id },
      ...{ token_hash: sha256Hex(strangersPassport.jwt), gate_id: strangersGate, gate_version: 1 },
      ...{ request_hash: hashOf(1), idempotency_key: 'order-1', approval_id: null, short: [short] },
    }),
  });
  return { status, answer: body.answers?.[0] };
}
