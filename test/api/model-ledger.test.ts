import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { GateId } from '../../shared/model/ids.ts';
import { minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type {
  LeaseCall,
  LeaseCounter,
  LeaseGrantBody,
  LeaseRequest,
  LeaseReturn,
} from '../../shared/wire/lease-call.ts';
import { Chance } from '../sim/chance.ts';
import { Ledger } from '../sim/model/ledger.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { type LeaseHolder, leaseHolder, ofGate, ofPassport } from '../support/lease-holder.ts';
import { runs } from '../support/runs.ts';
import { type ConnectedSidecar, connectSidecar, recordOf } from '../support/test-sidecar.ts';

/*
 * The ledger of the simulation (test/sim/model) beside the real one: the same random calls of sidecars have
 * the same answers. A sidecar that says more than is true is among them.
 */

let api: Api;
let passport: Reply['body'];
beforeAll(async () => {
  api = await startApi();
  api.stopClock();
  goToNoon(api);
  passport = await api.issuePassport({ constraints: { spend_limits: { daily_usd: 30 } } });
});
afterAll(() => api.close());

const timeout = runs({ short: 3 * minuteMs, long: 60 * minuteMs });
const usd = 1_000_000;
const requestsMax = 60;
const dollarsMax = 50;

interface Window {
  readonly counter: LeaseCounter;
  readonly limit: number;
  readonly isMoney: boolean;
}

/** A process of a sidecar on both sides. */
interface Holder {
  readonly sidecar: ConnectedSidecar;
  readonly own: LeaseHolder;
  nextSeq: number;
  callSeq: number;
  last: Pick<LeaseCall, 'returns' | 'asks' | 'seq'> | null;
  /** By window: the number of its lease in each ledger. */
  readonly leases: Map<Window, { readonly real: number; readonly model: number }>;
}

class Both {
  readonly #chance: Chance;
  readonly #model = new Ledger();
  readonly #windows: readonly Window[];
  readonly #gateId: GateId;
  readonly #holders: Holder[] = [];

  constructor(chance: Chance, gateId: GateId) {
    this.#chance = chance;
    this.#gateId = gateId;
    this.#windows = [
      { counter: ofGate('gate_rate', gateId), limit: requestsMax, isMoney: false },
      { counter: ofGate('gate_spend', gateId), limit: dollarsMax * usd, isMoney: true },
      { counter: ofPassport('passport_spend', passport), limit: 30 * usd, isMoney: true },
    ];
  }

  async step(): Promise<void> {
    if (this.#holders.length < 3) this.#holders.push(await this.#begin());
    const holder = this.#chance.pick(this.#holders);
    const kind = this.#chance.below(10);
    if (kind < 5) await this.#lease(holder);
    else if (kind < 6) await this.#repeat(holder);
    else if (kind < 8) await this.#permit(holder);
    else if (kind < 9) await this.#void(holder);
    else await this.#end(holder);
  }

  async #begin(): Promise<Holder> {
    const sidecar = await connectSidecar(api);
    const own = await leaseHolder(api, { sidecar });
    return { sidecar, own, nextSeq: 1, callSeq: 0, last: null, leases: new Map() };
  }

  async #lease(holder: Holder): Promise<void> {
    const asks = this.#some().map((window) => this.#ask(window));
    const returns = this.#some().map((window) => this.#return(window));
    holder.last = { asks, returns, seq: ++holder.callSeq };
    await this.#repeat(holder);
  }

  async #repeat(holder: Holder): Promise<void> {
    if (holder.last === null) return;
    const { asks, returns, seq } = holder.last;
    const { epoch } = holder.sidecar;
    const reply = await holder.own.call(asks, returns, { epoch, seq });
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    const call: LeaseCall = {
      sidecar_id: holder.sidecar.sidecarId,
      connection_id: holder.sidecar.connectionId,
      holder: holder.own.holder,
      epoch,
      seq,
      returns: [...returns],
      asks: [...asks],
    };
    const answer = this.#model.lease(call, {
      limitOf: (ask) => {
        const found = this.#windows.find(({ counter }) => counter.kind === ask.kind);
        return found === undefined ? null : { limit: found.limit, endsAtMs: null };
      },
      isConnected: () => true,
      nowMs: api.deps.clock.now(),
    });
    if (answer === 'holder_unknown') throw new Error('the model does not know its holder');
    const real = reply.body.grants as readonly LeaseGrantBody[];
    expect(real.map(withoutId)).toEqual(answer.grants.map(withoutId));
    for (const [place, ask] of asks.entries()) {
      const ids = { real: real[place]?.lease_id, model: answer.grants[place]?.lease_id };
      const window = this.#windows.find(({ counter }) => counter.kind === ask.kind);
      if (window !== undefined && ids.real !== undefined && ids.model !== undefined)
        holder.leases.set(window, { real: ids.real, model: ids.model });
    }
  }

  #some = (): Window[] => this.#windows.filter(() => this.#chance.happens(0.5));

  #units = ({ isMoney }: Window, most: number): number =>
    isMoney ? this.#chance.below(most * 4) * (usd / 4) : this.#chance.below(most);

  #ask(window: Window): LeaseRequest {
    const needed = this.#units(window, 12);
    return {
      ...window.counter,
      window: 'day',
      units_min: this.#chance.happens(0.5) ? needed : Math.floor(needed / 2),
      units_needed: needed,
      units_ahead: this.#chance.happens(0.5) ? this.#units(window, 8) : 0,
    };
  }

  /** Perhaps more than it has. */
  #return(window: Window): LeaseReturn {
    const { startsAtMs } = windowAt('day', api.deps.clock.now());
    return { ...window.counter, window: 'day', starts_at_ms: startsAtMs, units: this.#units(window, 6) };
  }

  /** A PERMIT that says what it took, true or not: both take it, or neither. */
  async #permit(holder: Holder): Promise<void> {
    const leases = this.#windows.map((window) => holder.leases.get(window));
    const known = leases.filter((each) => each !== undefined);
    if (known.length < this.#windows.length) return;
    const amountMicroUsd = (1 + this.#chance.below(12)) * (usd / 4);
    const take = { sidecarId: holder.sidecar.sidecarId, amountMicroUsd };
    const record = recordOf(
      api,
      { gateId: this.#gateId, passport },
      { amount_micro_usd: amountMicroUsd, took: known.map(({ real }) => real) },
    );
    const taken = { ...take, took: known.map(({ model }) => model) };
    const fault = this.#model.whyNot(taken, null);
    const reply = await holder.sidecar.send(holder.nextSeq, [record]);
    expect(reply.status, `${fault}: ${JSON.stringify(reply.body)}`).toBe(fault === null ? 200 : 400);
    if (fault !== null) {
      expect(reply.body.error.refused).toMatchObject([{ message: fault }]);
      return;
    }
    holder.nextSeq++;
    this.#model.post(taken);
  }

  /** Of a settlement that never arrived. */
  async #void(holder: Holder): Promise<void> {
    const known = this.#windows.flatMap((window) => holder.leases.get(window) ?? []);
    const amountMicroUsd = (1 + this.#chance.below(8)) * (usd / 4);
    const nowMs: UnixMillis = api.deps.clock.now();
    const reply = await holder.sidecar.send(holder.nextSeq, [
      {
        voids: api.deps.random.newId('att', nowMs),
        took: known.map(({ real }) => real),
        amount_micro_usd: amountMicroUsd,
        timestamp_ms: nowMs,
      },
    ]);
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    holder.nextSeq++;
    const take = { sidecarId: holder.sidecar.sidecarId, amountMicroUsd };
    this.#model.release({ ...take, took: known.map(({ model }) => model) }, false);
  }

  /** Its epoch has ended whole, and another process begins. */
  async #end(holder: Holder): Promise<void> {
    const end = { nothing_lost: true, torn_bytes: 0 };
    expect((await holder.sidecar.send(holder.nextSeq, [], { end })).status).toBe(200);
    this.#model.endEpoch(holder.sidecar.sidecarId, holder.sidecar.epoch);
    this.#holders.splice(this.#holders.indexOf(holder), 1);
  }

  async expectSame(): Promise<void> {
    expect(this.#model.findImbalance()).toBeNull();
    const rows = await api.deps.sql<{ counter: string; leased: number }[]>`
      SELECT counter, leased FROM quota_windows WHERE leased > 0 ORDER BY counter COLLATE "C"`;
    const model = [...this.#model.windows.values()]
      .filter(({ leased }) => leased > 0)
      .map(({ counter, leased }) => ({ counter, leased }))
      .sort((one, other) => (one.counter < other.counter ? -1 : 1));
    const counters = new Set<string>(model.map(({ counter }) => counter));
    expect(rows.filter(({ counter }) => counters.has(counter))).toEqual(model);
  }
}

/** What is lent depends on when the other sidecars were last heard of, by the clock of the database. */
const withoutId = ({ lease_id: id, lent: _, ...grant }: LeaseGrantBody) => ({
  ...grant,
  hasLease: id !== undefined,
});

it('answers as its model does, whatever sidecars say', { timeout }, async () => {
  const seed = BigInt(randomInt(2 ** 47));
  const { gate_id } = await api.createGate({
    constraints: {
      rate_limits: { requests_per_day: requestsMax },
      spend_limits: { daily_usd: dollarsMax },
    },
  });
  const both = new Both(new Chance(seed, 'ledger'), gate_id);
  for (let step = 0; step < runs({ short: 100, long: 20_000 }); step++) {
    try {
      await both.step();
    } catch (error) {
      throw new Error(`seed ${seed}, step ${step}`, { cause: error });
    }
  }
  await both.expectSame();
});
