import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import type { ChangeVerdict, PermitChange, PermitState } from '../../control-plane/outcomes/permit-change.ts';
import type { HoldRule } from '../../shared/model/constraints.ts';
import type { AttestationId, GateId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { minuteMs, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { windowKey } from '../../shared/quota/window.ts';
import { parseBatchItem } from '../../shared/wire/attestation-batch.ts';
import { Chance } from '../sim/chance.ts';
import { Chains } from '../sim/model/chains.ts';
import { Holds } from '../sim/model/holds.ts';
import { Ledger, type Take } from '../sim/model/ledger.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { ofGate } from '../support/lease-holder.ts';
import { numbered } from '../support/model-service.ts';
import { runs } from '../support/runs.ts';
import { expectSoundStore, recordOf } from '../support/test-sidecar.ts';

/*
 * What becomes of PERMITs in the simulation's model (test/sim/model) beside the real control plane: the same
 * random outcomes, extensions, refunds and ends of holds have the same answers, and give the same back.
 */

let api: Api;
let passport: Reply['body'];
beforeAll(async () => {
  api = await startApi();
  api.stopClock();
  goToNoon(api);
  passport = await api.issuePassport();
});
afterAll(() => api.close());

const timeout = runs({ short: 3 * minuteMs, long: 60 * minuteMs });
const usd = 1_000_000;
const limitUsd = 100_000;
/** The day must not end meanwhile. */
const pauseMsMax = runs({ short: minuteMs, long: 4 * secondMs });
const source = { sidecarId: 'side_00000000000000000000000001', accountId: numbered.account(1) } as const;

class Both {
  readonly #chance: Chance;
  readonly #gates: ReadonlyMap<GateId, HoldRule>;
  readonly #ledger = new Ledger();
  readonly #chains = new Chains({ kid: 'key', sign: () => '' });
  readonly #takes = new Map<string, Take>();
  readonly #holds: Holds;
  #calls = 0;
  /** Kinds of answers. */
  readonly seen = new Set<string>();

  constructor(chance: Chance, gates: ReadonlyMap<GateId, HoldRule>) {
    this.#chance = chance;
    this.#gates = gates;
    this.#holds = new Holds({
      chains: this.#chains,
      ledger: this.#ledger,
      takeOf: (id) => this.#takes.get(id),
      ruleOf: (gateId) => gates.get(gateId as GateId) ?? null,
      makeId: () => api.deps.random.newId('att', api.deps.clock.now()),
    });
  }

  async step(): Promise<void> {
    const kind = this.#chance.below(12);
    if (kind < 3 || this.#takes.size === 0) await this.#permit();
    else if (kind < 7) await this.#report();
    else if (kind < 8) await this.#extend();
    else if (kind < 10) await this.#refund();
    else await this.#wait();
  }

  async #permit(): Promise<void> {
    const gateId = this.#chance.pick([...this.#gates.keys()]);
    const amount = this.#chance.pick([0.25, 1, 7.5]);
    const isHeld = this.#chance.happens(0.7);
    const request = {
      ...{ permission_key: 'orders:create', amount },
      ...(isHeld && { hold: this.#chance.happens(0.5) ? true : { expires_in_s: 60 } }),
    };
    const { body } = await api.call({
      url: `/v1/gates/${gateId}/check`,
      body: { passport: passport.jwt, request },
    });
    expect(body.decision, JSON.stringify(body)).toBe('PERMIT');
    const amountMicroUsd = (amount * usd) as MicroUsd;
    this.#take(body.attestation_id, gateId, amountMicroUsd);
    const item = parseBatchItem(
      recordOf(api, { gateId, passport }, { id: body.attestation_id, amount_micro_usd: amountMicroUsd }),
      source as never,
    );
    if (item.kind !== 'record') throw new Error(JSON.stringify(item));
    const holdExpiresAtMs = isHeld ? (Date.parse(body.hold.expires_at) as UnixMillis) : null;
    const record = { ...item.record, holdExpiresAtMs };
    this.#chains.append(record);
    this.#holds.begin(record);
  }

  /** The control plane takes for itself; the model leases it to a holder that uses it at once. */
  #take(id: string, gateId: GateId, units: number): void {
    const asks = [
      { ...ofGate('gate_spend', gateId), window: 'day' as const },
      { ...ofGate('gate_spend', gateId), window: 'month' as const },
    ].map((ask) => ({ ...ask, units_min: units, units_needed: units, units_ahead: 0 }));
    const answer = this.#ledger.lease(
      {
        ...{ sidecar_id: source.sidecarId as never, connection_id: '', holder: 'control plane' },
        ...{ seq: ++this.#calls, returns: [], asks },
      },
      {
        limitOf: () => ({ limit: limitUsd * usd, endsAtMs: null }),
        isConnected: () => true,
        nowMs: api.deps.clock.now(),
      },
    );
    if (answer === 'holder_unknown') throw new Error('the model does not know its holder');
    const took = answer.grants.flatMap(({ lease_id: leaseId }) => leaseId ?? []);
    const take = { sidecarId: source.sidecarId, took, amountMicroUsd: units };
    this.#ledger.post(take);
    this.#takes.set(id, take);
  }

  #some = (): AttestationId => this.#chance.pick([...this.#takes.keys()]) as AttestationId;

  #amount = (): number | null => this.#chance.pick([null, 0.25, 1, 3.1, 7.5, 9]);

  async #report(): Promise<void> {
    const outcome = this.#chance.pick(['served', 'served', 'failed'] as const);
    const amount = outcome === 'failed' ? null : this.#amount();
    const change = { kind: 'outcome', outcome, amountMicroUsd: micro(amount), detail: null } as const;
    await this.#change('outcome', { outcome, ...(amount !== null && { amount }) }, change);
  }

  async #extend(): Promise<void> {
    const seconds = this.#chance.pick([60, 600, 604_800]);
    const change = { kind: 'extend', expiresInMs: seconds * secondMs } as const;
    await this.#change('hold/extend', { expires_in_s: seconds }, change);
  }

  async #refund(): Promise<void> {
    const amount = this.#amount();
    const change = { kind: 'refund', amountMicroUsd: micro(amount) } as const;
    await this.#change('refund', amount === null ? {} : { amount }, change);
  }

  async #change(path: string, body: object, change: PermitChange): Promise<void> {
    const id = this.#some();
    const verdict = this.#holds.change(id, change, api.deps.clock.now());
    const reply = await api.call({ url: `/v1/attestations/${id}/${path}`, body });
    if (verdict === null) throw new Error('the model does not know the PERMIT');
    this.seen.add(`${change.kind} ${verdict.kind === 'refused' ? verdict.code : verdict.kind}`);
    expect(told(reply), JSON.stringify(reply.body)).toEqual(expected(verdict));
    if (verdict.kind !== 'refused') expectState(reply.body, this.#holds.permits.get(id));
  }

  /** Holds whose time is over end. */
  async #wait(): Promise<void> {
    api.advance(Math.floor(this.#chance.fraction() * pauseMsMax));
    while ((await expireHolds(api.deps)) > 0);
    this.#holds.expire(api.deps.clock.now());
  }

  async expectSame(): Promise<void> {
    expect(this.#ledger.findImbalance()).toBeNull();
    const rows = await api.deps.sql<{ counter: string; leased: number; name: string; startsAtMs: number }[]>`
      SELECT counter, leased, window_name AS name, starts_at_ms AS "startsAtMs" FROM quota_windows
      WHERE counter LIKE 'gate_spend%'`;
    expect(new Map(rows.map((row) => [windowKey(row.counter, row), row.leased]))).toEqual(
      new Map([...this.#ledger.windows].map(([key, { leased }]) => [key, leased])),
    );
    for (const [id, state] of this.#holds.permits) {
      const { body } = await api.call({ url: `/v1/attestations/${id}/outcome` });
      expectState(body, state);
      if (state.hold?.status === 'expired') this.seen.add('expired');
    }
    await expectSoundStore(api);
  }
}

const micro = (amount: number | null): MicroUsd | null =>
  amount === null ? null : (Math.round(amount * usd) as MicroUsd);

const told = ({ status, body }: Reply): object => ({
  status: status < 300 ? 'done' : 'refused',
  code: body.error?.code,
});

const expected = (verdict: ChangeVerdict): object =>
  verdict.kind === 'refused'
    ? { status: 'refused', code: verdict.code }
    : { status: 'done', code: undefined };

function expectState(body: Reply['body'], state: PermitState | undefined): void {
  expect({
    counts: Math.round(body.counts_usd * usd),
    refunded: Math.round(body.refunded_usd * usd),
    outcome: body.outcome ?? null,
    hold: body.hold === null ? null : { status: body.hold.status, expires: Date.parse(body.hold.expires_at) },
  }).toEqual({
    counts: state?.countsMicroUsd,
    refunded: state?.refundedMicroUsd,
    outcome: state?.reported?.outcome ?? null,
    hold: state?.hold == null ? null : { status: state.hold.status, expires: state.hold.expiresAtMs },
  });
}

const answers = [
  ...['outcome changed', 'outcome amount_exceeds_hold', 'outcome outcome_conflict', 'expired'],
  ...['refund changed', 'refund outcome_conflict', 'refund amount_exceeds_hold', 'extend changed'],
];

it('become what their model says, and give the same back', { timeout }, async () => {
  const seed = BigInt(randomInt(2 ** 47));
  const gates = new Map<GateId, HoldRule>();
  for (const onExpiry of ['settle', 'release'] as const) {
    const { gate_id } = await api.createGate({
      constraints: {
        spend_limits: { daily_usd: limitUsd, monthly_usd: limitUsd },
        holds: { expires_in_s: 120, on_expiry: onExpiry },
      },
    });
    gates.set(gate_id, { expiresInMs: 120 * secondMs, onExpiry, overrun: 'refuse' });
  }
  const both = new Both(new Chance(seed, 'outcomes'), gates);
  const steps = runs({ short: 200, long: 10_000 });
  // The control: what is never answered could not differ. It may take more steps.
  const isOver = (step: number): boolean =>
    step >= 10 * steps || (step >= steps && answers.every((each) => both.seen.has(each)));
  for (let step = 0; !isOver(step); step++) {
    try {
      await both.step();
    } catch (error) {
      throw new Error(`seed ${seed}, step ${step}`, { cause: error });
    }
  }
  await both.expectSame();
  expect([...both.seen]).toEqual(expect.arrayContaining(answers));
});
