import { isDeepStrictEqual } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { AccountId, GateId, WalletId } from '../../shared/model/ids.ts';
import { minuteMs } from '../../shared/model/time.ts';
import type { WalletLimits } from '../../shared/model/wallet.ts';
import { isMoney } from '../../shared/quota/counter.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import type {
  LeaseCall,
  LeaseGrantBody,
  LeaseRequest,
  LeaseReturn,
} from '../../shared/wire/sync/lease-call.ts';
import { Chance } from '../sim/chance.ts';
import { counterOf, Ledger } from '../sim/model/ledger.ts';
import { Wallets } from '../sim/model/wallets.ts';
import { runs } from '../support/base/runs.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { type BesideModel, playBeside } from '../support/service/beside-model.ts';
import { type LeaseHolder, leaseHolder, ofGate } from '../support/service/lease-holder.ts';
import { type ConnectedSidecar, connectSidecar, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet, moveToWallet, putWallet, setFrozen } from '../support/service/wallets.ts';

/*
 * The wallets of the simulation's model (test/sim/model) beside the real ones: the same random trees, moves,
 * freezes and lease calls, of sidecars of their own account and of another, have the same answers.
 */

const api = useApi(startOwnApi);
let own: Account;
let stranger: Account;
beforeAll(async () => {
  api.stopClock();
  goToNoon(api);
  const { accountId, key } = await api.createAccount();
  stranger = { accountId: accountId as AccountId, key };
  const { account_id } = await api.createGate();
  own = { accountId: account_id, key: api.adminKey };
});

interface Account {
  readonly accountId: AccountId;
  readonly key: string;
}

/** A process of a sidecar on both sides. */
interface Holder {
  readonly sidecar: ConnectedSidecar;
  readonly accountId: AccountId;
  readonly own: LeaseHolder;
  nextSeq: number;
  callSeq: number;
  last: Pick<LeaseCall, 'returns' | 'asks' | 'seq' | 'wallets'> | null;
  /** By window: the number of its lease in each ledger. */
  readonly leases: Map<string, { readonly real: number; readonly model: number }>;
}

type Lane = Omit<LeaseRequest, 'units_min' | 'units_needed' | 'units_ahead'>;

const timeout = runs({ short: 3 * minuteMs, long: 60 * minuteMs });
const usd = 1_000_000;
const gateLimit = 500 * usd;

const drawerOf = (token: string) => ({ accountId: own.accountId, tokenHash: sha256Hex(token) });

class Both implements BesideModel {
  readonly #chance: Chance;
  readonly #counts = new Map<string, { readonly own: number; readonly isVoid: boolean }>();
  readonly #ledger = new Ledger();
  readonly #wallets = new Wallets(() => undefined);
  readonly #ids: WalletId[] = [];
  readonly #passports: Reply['body'][] = [];
  readonly #holders: Holder[] = [];
  readonly #gateId: GateId;
  /** What has come about at least once. */
  readonly seen = new Set<string>();

  constructor(chance: Chance, gateId: GateId) {
    this.#chance = chance;
    this.#gateId = gateId;
  }

  /** A root with a pot and a reserved share below it, and one more below each. */
  async begin(): Promise<void> {
    const root = await this.#make(null, 'pot', { daily_usd: 60 * usd, requests_per_day: 90 });
    const pot = await this.#make(root, 'pot', { daily_usd: 40 * usd });
    const share = await this.#make(root, 'reserved', { daily_usd: 20 * usd, requests_per_day: 20 });
    await this.#make(pot, 'reserved', { daily_usd: 12 * usd });
    await this.#make(share, 'pot', { requests_per_day: 30 });
    for (const walletId of [...this.#ids, null]) {
      const passport = await api.issuePassport({ wallet_id: walletId });
      this.#passports.push(passport);
      if (walletId !== null)
        this.#wallets.issue(passport.passport_id, drawerOf(passport.jwt), walletId, api.deps.clock.now());
    }
  }

  async #make(parentId: WalletId | null, share: 'pot' | 'reserved', limits: WalletLimits): Promise<WalletId> {
    const { wallet_id: walletId } = await makeWallet(api, {
      ...{ parent_wallet_id: parentId, share, limits: rendered(limits) },
    });
    this.#wallets.create(
      { walletId, accountId: own.accountId, parentId, limits, share },
      api.deps.clock.now(),
    );
    this.#ids.push(walletId);
    return walletId;
  }

  #put({ passport_id: id, jwt }: Reply['body'], walletId: WalletId | null): void {
    this.#wallets.put(id, drawerOf(jwt), walletId, api.deps.clock.now());
  }

  async step(): Promise<void> {
    if (this.#holders.length < 3) this.#holders.push(await this.#beginHolder());
    const holder = this.#chance.pick(this.#holders);
    const kind = this.#chance.below(20);
    if (kind < 9) await this.#lease(holder);
    else if (kind < 10) await this.#repeat(holder);
    else if (kind < 14) await this.#permit(holder);
    else if (kind < 15) await this.#freeze();
    else if (kind < 17) await this.#update();
    else if (kind < 18) await this.#move();
    else if (kind < 19) await this.#moveWallet();
    else if (this.#chance.happens(0.5)) await this.#end(holder);
    // Longer than any wallet is known to have been another; the day must not end.
    else if (this.#chance.happens(0.1)) api.advance(minuteMs);
  }

  async #beginHolder(): Promise<Holder> {
    const { accountId, key } = this.#chance.happens(0.3) ? stranger : own;
    const sidecar = await connectSidecar(api, { key });
    const holder = await leaseHolder(api, { sidecar });
    return { sidecar, accountId, own: holder, nextSeq: 1, callSeq: 0, last: null, leases: new Map() };
  }

  async #lease(holder: Holder): Promise<void> {
    const lanes = this.#lanes();
    const asks = some(this.#chance, lanes, 5).map((lane) => this.#ask(lane));
    const returns = some(this.#chance, lanes, 3).map((lane) => this.#return(lane));
    const asked = this.#chance.pick(this.#passports);
    const wallets = this.#chance.happens(0.4)
      ? [{ passport_id: asked.passport_id, token_hash: sha256Hex(asked.jwt) }]
      : undefined;
    holder.last = { asks, returns, seq: ++holder.callSeq, ...(wallets !== undefined && { wallets }) };
    await this.#repeat(holder);
  }

  async #repeat(holder: Holder): Promise<void> {
    if (holder.last === null) return;
    const { asks, returns, seq, wallets } = holder.last;
    const { sidecar, accountId } = holder;
    const { epoch } = sidecar;
    const rest = { epoch, seq, ...(wallets !== undefined && { wallets }) };
    const reply = await holder.own.call(asks, returns, rest);
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    const call: LeaseCall = {
      ...{ sidecar_id: sidecar.sidecarId, connection_id: sidecar.connectionId, holder: holder.own.holder },
      ...{ ...rest, returns: [...returns], asks: [...asks] },
    };
    const nowMs = api.deps.clock.now();
    const answer = this.#ledger.lease(call, {
      limitOf: (ask) => {
        if (ask.wallet !== undefined) return this.#wallets.limitOf(ask, accountId, nowMs);
        return accountId === own.accountId ? { limit: gateLimit, endsAtMs: null } : null;
      },
      isConnected: () => true,
      nowMs,
    });
    if (answer === 'holder_unknown') throw new Error('the model does not know its holder');
    const real = reply.body.grants as readonly LeaseGrantBody[];
    expect(real.map(withoutId)).toEqual(answer.grants.map(withoutId));
    this.#noteLeases(holder, asks, real, answer.grants);
    if (wallets === undefined) return;
    const levels = wallets.map((each) => this.#wallets.levelsOf(accountId, each, each.token_hash));
    expect(reply.body.wallets).toEqual(levels);
  }

  #noteLeases(
    holder: Holder,
    asks: readonly LeaseRequest[],
    real: readonly LeaseGrantBody[],
    model: readonly LeaseGrantBody[],
  ): void {
    for (const [place, ask] of asks.entries()) {
      const [one, other] = [real[place], model[place]];
      if (one?.lease_id !== undefined && other?.lease_id !== undefined)
        holder.leases.set(counterOf(ask), { real: one.lease_id, model: other.lease_id });
      if (one?.limit === null) this.seen.add('no limit');
      else if ((one?.granted ?? 0) > 0) this.seen.add('granted');
      else if (ask.units_min > 0) this.seen.add(`nothing left, ${one?.limit === 0 ? 'of 0' : 'of more'}`);
    }
  }

  /** Every lane that there may be, shown by any passport; and the limit of a gate. */
  #lanes(): Lane[] {
    const lanes = this.#ids.flatMap((id) => {
      const children = this.#ids.filter((each) => this.#wallets.get(each).parentId === id);
      return ['pot', ...children.map((each) => idDigest(each))].flatMap((lane) =>
        (['wallet_spend', 'wallet_rate'] as const).map((kind) => {
          const { passport_id, jwt } = this.#chance.pick(this.#passports);
          const shown = { gate_id: null, passport_id, token_hash: sha256Hex(jwt) };
          return { ...shown, kind, wallet: `${idDigest(id)}:${lane}`, window: 'day' as const };
        }),
      );
    });
    return [...lanes, { ...ofGate('gate_spend', this.#gateId), window: 'day' }];
  }

  #units = (of: Parameters<typeof counterOf>[0], most: number): number =>
    isMoney(counterOf(of)) ? this.#chance.below(most * 4) * (usd / 4) : this.#chance.below(most);

  #ask(lane: Lane): LeaseRequest {
    const needed = this.#units(lane, 12);
    return {
      ...lane,
      units_min: this.#chance.happens(0.5) ? needed : Math.floor(needed / 2),
      units_needed: needed,
      units_ahead: this.#chance.happens(0.5) ? this.#units(lane, 8) : 0,
    };
  }

  /** Perhaps more than it has. */
  #return(lane: Lane): LeaseReturn {
    const { startsAtMs } = windowAt('day', api.deps.clock.now());
    return { ...lane, starts_at_ms: startsAtMs, units: this.#units(lane, 6) };
  }

  /** A PERMIT that took from wallets of its passport and perhaps from others: both take it, or neither. */
  async #permit(holder: Holder): Promise<void> {
    if (holder.accountId !== own.accountId) return;
    const passport = this.#chance.pick(this.#passports.slice(0, -1));
    const known = some(this.#chance, [...holder.leases.values()], 5);
    const amountMicroUsd = (1 + this.#chance.below(12)) * (usd / 4);
    const record = recordOf(
      api,
      { gateId: this.#gateId, passport },
      { amount_micro_usd: amountMicroUsd, took: known.map(({ real }) => real) },
    );
    const take = {
      sidecarId: holder.sidecar.sidecarId,
      amountMicroUsd,
      took: known.map(({ model }) => model),
    };
    const reply = await holder.sidecar.send(holder.nextSeq, [record]);
    // What a PERMIT must and may take from is told by the tests of ingest; here, how much there is.
    if (/lacks|is not of this/.test(JSON.stringify(reply.body))) return;
    const fault = this.#ledger.whyNot(take, null);
    expect(reply.status, `${fault}: ${JSON.stringify(reply.body)}`).toBe(fault === null ? 200 : 400);
    if (fault !== null) {
      expect(reply.body.error.refused).toMatchObject([{ message: fault }]);
      return;
    }
    if (known.length > 0) this.seen.add('taken');
    holder.nextSeq++;
    this.#ledger.post(record.id, take);
    this.#counts.set(record.id, { own: amountMicroUsd, isVoid: false });
  }

  async #freeze(): Promise<void> {
    const id = this.#chance.pick(this.#ids);
    const isFrozen = this.#chance.happens(0.3);
    expect((await setFrozen(api, id, isFrozen ? 'freeze' : 'unfreeze')).status).toBe(200);
    this.#wallets.freeze(id, isFrozen);
  }

  /** Limits and shares that are booked too often are refused by both. */
  async #update(): Promise<void> {
    const id = this.#chance.pick(this.#ids);
    const { limits, share } = this.#wallets.get(id);
    const change = this.#chance.happens(0.3)
      ? { limits, share: share === 'pot' ? ('reserved' as const) : ('pot' as const) }
      : { limits: this.#otherLimits(limits), share };
    if (change.share === share && isDeepStrictEqual(change.limits, limits)) return;
    const fault = this.#wallets.overbooked(id, change);
    const reply = await putWallet(api, id, { share: change.share, limits: rendered(change.limits) });
    expect(reply.status, JSON.stringify(reply.body)).toBe(fault === null ? 200 : 400);
    if (fault === null) this.#wallets.update(id, change, api.deps.clock.now());
    else this.seen.add('overbooked');
  }

  #otherLimits = (limits: WalletLimits): WalletLimits =>
    Object.fromEntries(
      Object.entries(limits).map(([name, limit]) => {
        const unit = name.endsWith('_usd') ? usd : 1;
        return [name, Math.ceil((limit / unit) * this.#chance.pick([0.5, 0.75, 1.5, 2])) * unit];
      }),
    );

  async #move(): Promise<void> {
    const passport = this.#chance.pick(this.#passports);
    const walletId = this.#chance.happens(0.1) ? null : this.#chance.pick(this.#ids);
    if (this.#wallets.walletOf(passport.passport_id) === walletId) return;
    expect((await moveToWallet(api, passport.passport_id, walletId)).status).toBe(200);
    this.#put(passport, walletId);
  }

  /** With all below it. Below itself, too deep and booked too often are refused by both. */
  async #moveWallet(): Promise<void> {
    const id = this.#chance.pick(this.#ids);
    const parentId = this.#chance.happens(0.2) ? null : this.#chance.pick(this.#ids);
    if (this.#wallets.get(id).parentId === parentId) return;
    const fault = this.#wallets.misplaced(id, parentId);
    const reply = await putWallet(api, id, { parent_wallet_id: parentId });
    expect(reply.status, `${fault}: ${JSON.stringify(reply.body)}`).toBe(fault === null ? 200 : 400);
    if (fault === null) this.#wallets.moveBelow(id, parentId, api.deps.clock.now());
    this.seen.add(fault === null ? 'a wallet moved' : `not moved: ${fault}`);
  }

  /** Its epoch has ended whole, and another process begins. */
  async #end(holder: Holder): Promise<void> {
    const end = { nothing_lost: true, torn_bytes: 0 };
    expect((await holder.sidecar.send(holder.nextSeq, [], { end })).status).toBe(200);
    this.#ledger.endEpoch(holder.sidecar.sidecarId, holder.sidecar.epoch);
    this.#holders.splice(this.#holders.indexOf(holder), 1);
  }

  /** Lanes and wallets alike have given out the same. */
  async expectSame(): Promise<void> {
    expect(this.#ledger.findImbalance((id) => this.#counts.get(id))).toBeNull();
    const rows = await api.deps.sql<{ counter: string; leased: number; name: string; startsAtMs: number }[]>`
      SELECT counter, leased, window_name AS name, starts_at_ms AS "startsAtMs" FROM quota_windows
      WHERE leased > 0 AND counter LIKE 'wallet%'`;
    const model = [...this.#ledger.windows].filter(
      ([, { leased, counter }]) => leased > 0 && counter.startsWith('wallet'),
    );
    expect(new Map(rows.map((row) => [windowKey(row.counter, row), row.leased]))).toEqual(
      new Map(model.map(([key, { leased }]) => [key, leased])),
    );
  }
}

const some = <T>(chance: Chance, items: readonly T[], most: number): T[] => {
  const left = [...items];
  const picked: T[] = [];
  for (let n = chance.below(most + 1); n > 0 && left.length > 0; n--)
    picked.push(...left.splice(chance.below(left.length), 1));
  return picked;
};

const rendered = (limits: WalletLimits) =>
  Object.fromEntries(
    Object.entries(limits).map(([name, limit]) => [name, name.endsWith('_usd') ? limit / usd : limit]),
  );

/** What is lent depends on when the other sidecars were last heard of, by the clock of the database. */
const withoutId = ({ lease_id: id, lent: _, ...grant }: LeaseGrantBody) => ({
  ...grant,
  hasLease: id !== undefined,
});

const answers = ['granted', 'no limit', 'a wallet moved'];

it('lend as their model does, whatever becomes of the tree', { timeout }, async () => {
  const { gate_id } = await api.createGate({ constraints: { spend_limits: { daily_usd: gateLimit / usd } } });
  const start = async (seed: bigint) => {
    const both = new Both(new Chance(seed, 'wallets'), gate_id);
    await both.begin();
    return both;
  };
  await playBeside(start, { steps: runs({ short: 200, long: 20_000 }), answers });
});
