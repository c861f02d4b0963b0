import { beforeAll, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { type AttestationId, type GateId, isId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { LeaseCall, LeaseGrantBody } from '../../shared/wire/sync/lease-call.ts';
import { parseSettlementCall, type SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import { Chance } from '../sim/chance.ts';
import { Chains } from '../sim/model/chains.ts';
import { Holds } from '../sim/model/holds.ts';
import { Ledger } from '../sim/model/ledger.ts';
import { Settlements } from '../sim/model/settlements.ts';
import { runs } from '../support/base/runs.ts';
import { numbered } from '../support/data/model-service.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon, hashOf } from '../support/service/approvals.ts';
import { type BesideModel, playBeside } from '../support/service/beside-model.ts';
import { type LeaseHolder, leaseHolder, ofGate } from '../support/service/lease-holder.ts';
import { expectSoundStore, newReaderId, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/*
 * Settlements of the simulation's model (test/sim/model) beside the real ones: the same random permits,
 * suspends, look-ups, repetitions, voids and people have the same answers.
 */

const api = useApi(startOwnApi);
let passport: Reply['body'];
beforeAll(async () => {
  api.stopClock();
  goToNoon(api);
  passport = await api.issuePassport();
});

const timeout = runs({ short: 3 * minuteMs, long: 60 * minuteMs });
const usd = 1_000_000;
/** The model has one. */
const ownAccount = numbered.account(1);
const leasedUsd = 2_000;

interface Sidecar {
  readonly own: LeaseHolder;
  readonly real: number;
  readonly model: number;
  nextSeq: number;
}

/** A settlement as it was sent, for its repetition and its void. */
interface Sent {
  readonly by: Sidecar;
  readonly id: string;
  readonly readerId: string;
  readonly amountMicroUsd: number;
  readonly isLookUp: boolean;
  readonly bodyWith: (leaseId: number) => object;
}

class Both implements BesideModel {
  readonly #chance: Chance;
  readonly #gateId: GateId;
  readonly #holds: Holds;
  readonly #ledger = new Ledger();
  readonly #chains = new Chains({ kid: 'key', sign: () => '' });
  readonly #model: Settlements;
  readonly #sidecars: Sidecar[] = [];
  readonly #sent: Sent[] = [];
  /** Kinds of answers. */
  readonly seen = new Set<string>();

  constructor(chance: Chance, gateId: GateId) {
    this.#chance = chance;
    this.#gateId = gateId;
    const makeId = (): AttestationId => api.deps.random.newId('att', api.deps.clock.now());
    this.#holds = new Holds({
      ...{ chains: this.#chains, ledger: this.#ledger, makeId },
      takeOf: (id) => this.#model.takes.get(id),
      ruleOf: () => null,
    });
    this.#model = new Settlements(this.#ledger, this.#chains, this.#holds, {
      policyVersionOf: (id) => (id === gateId ? 1 : null),
      blockOf: () => null,
      isConnected: () => true,
      isStandingOver: () => false,
      laneOf: () => null,
      walletOf: () => null,
    });
  }

  async begin(): Promise<void> {
    const own = await leaseHolder(api);
    const counter = ofGate('gate_spend', this.#gateId);
    const units = leasedUsd * usd;
    const asks = [
      { ...counter, window: 'day' as const, units_min: units, units_needed: units, units_ahead: 0 },
    ];
    const { epoch } = own.sidecar;
    const reply = await own.call(asks, [], { epoch, seq: 1 });
    const [grant] = reply.body.grants as readonly LeaseGrantBody[];
    const call: LeaseCall = {
      ...{ sidecar_id: own.sidecar.sidecarId, connection_id: own.sidecar.connectionId },
      ...{ holder: own.holder, epoch, seq: 1, returns: [], asks },
    };
    const answer = this.#ledger.lease(call, {
      limitOf: () => ({ limit: 100_000 * usd, endsAtMs: null }),
      isConnected: () => true,
      nowMs: api.deps.clock.now(),
    });
    if (answer === 'holder_unknown') throw new Error('the model does not know its holder');
    const model = answer.grants[0]?.lease_id;
    if (grant?.lease_id === undefined || model === undefined) throw new Error('nothing was granted');
    this.#sidecars.push({ own, real: grant.lease_id, model, nextSeq: 1 });
  }

  async step(): Promise<void> {
    const kind = this.#chance.below(12);
    if (kind < 3) await this.#settle(this.#permit());
    else if (kind < 5) await this.#settle(this.#suspend());
    else if (kind < 7) await this.#settle(this.#lookUp());
    else if (kind < 8 && this.#sent.length > 0) await this.#settle(this.#chance.pick(this.#sent));
    else if (kind < 10) await this.#void();
    else await this.#answer();
  }

  /** Few requests and keys, so that they meet. */
  #request() {
    return {
      wanted_ms: 3_000,
      passport_id: passport.passport_id,
      token_hash: sha256Hex(passport.jwt),
      gate_id: this.#gateId,
      gate_version: 1,
      request_hash: hashOf(this.#chance.below(3)),
      idempotency_key: this.#chance.happens(0.8) ? `key ${this.#chance.below(4)}` : null,
      reader_id: newReaderId(),
    };
  }

  /** One that is known, or none. */
  #approvalId = (): string | null => {
    const known = [...this.#model.approvals.keys()];
    return known.length === 0 || this.#chance.happens(0.3) ? null : this.#chance.pick(known);
  };

  #permit(): Sent {
    const request = this.#request();
    const approvalId = this.#approvalId();
    const idempotency_key = request.idempotency_key ?? (approvalId === null ? 'key 0' : null);
    const amountMicroUsd = approvalId === null ? usd : 12 * usd;
    const record = recordOf(
      api,
      { gateId: this.#gateId, passport },
      { request_hash: request.request_hash, amount_micro_usd: amountMicroUsd as MicroUsd },
    );
    return {
      ...{ by: this.#chance.pick(this.#sidecars), id: record.id, readerId: request.reader_id },
      amountMicroUsd: approvalId === null ? amountMicroUsd : 0,
      isLookUp: false,
      bodyWith: (leaseId) => ({
        ...{ ...request, idempotency_key, kind: 'permit', approval_id: approvalId },
        // What an approval holds is taken from no lease.
        record: { ...record, took: approvalId === null ? [leaseId] : [] },
      }),
    };
  }

  #suspend(): Sent {
    const request = this.#request();
    const amount = 12 * usd;
    const nowMs = api.deps.clock.now();
    const approval_id = api.deps.random.newId('appr', nowMs);
    const window = { window: 'day', starts_at_ms: windowAt('day', nowMs).startsAtMs };
    const body = {
      ...{ ...request, kind: 'suspend', approval_id, permission_key: 'orders:create' },
      ...{ amount_micro_usd: amount, pii: [], expires_in_ms: 300_000 },
      constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit', 'approval'],
      held: [{ ...ofGate('gate_spend', this.#gateId), ...window, units: amount }],
    };
    return {
      ...{ by: this.#chance.pick(this.#sidecars), id: approval_id, readerId: request.reader_id },
      ...{ amountMicroUsd: amount, isLookUp: false, bodyWith: () => body },
    };
  }

  #lookUp(): Sent {
    const request = this.#request();
    const body = { ...request, kind: 'look_up', approval_id: this.#approvalId(), short: [] };
    return {
      ...{ by: this.#chance.pick(this.#sidecars), id: request.reader_id, readerId: request.reader_id },
      ...{ amountMicroUsd: 0, isLookUp: true, bodyWith: () => body },
    };
  }

  async #settle(sent: Sent): Promise<void> {
    this.#sent.push(sent);
    const { by, bodyWith } = sent;
    const { sidecar, holder } = by.own;
    const sender = { sidecar_id: sidecar.sidecarId, connection_id: sidecar.connectionId, holder };
    const reply = await api.call({
      url: '/v1/sync/settlements',
      key: sidecar.key,
      body: { ...sender, settlements: [bodyWith(by.real)] },
    });
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    const call = parseSettlementCall({ ...sender, settlements: [bodyWith(by.model)] }, ownAccount);
    const from = {
      ...{ sidecarId: sidecar.sidecarId, accountId: ownAccount, holder },
      ...{ nowMs: api.deps.clock.now(), isRepeat: false },
    };
    const [answer] = this.#model.settleAll(call.settlements, from);
    const [settlement] = call.settlements;
    if (answer === undefined || settlement === undefined) throw new Error('the model answers nothing');
    this.seen.add(answer.kind);
    const isClosed = this.#model.close(settlement, answer, from);
    const expected = isClosed ? { ...answer, is_closed: true } : answer;
    expect(told(reply.body.answers[0])).toEqual(told(expected as SettlementAnswer));
  }

  /** What was sent has answered nobody; or its reading has not. */
  async #void(): Promise<void> {
    if (this.#sent.length === 0) return;
    const { by, id, readerId, amountMicroUsd, isLookUp } = this.#chance.pick(this.#sent);
    const withReader = !isLookUp && this.#chance.happens(0.5);
    const hasTaken = isId('att', id) && !isLookUp && amountMicroUsd > 0;
    const timestamp_ms: UnixMillis = api.deps.clock.now();
    const entry = { voids: id, amount_micro_usd: amountMicroUsd, timestamp_ms };
    const reply = await by.own.sidecar.send(by.nextSeq, [
      {
        ...{ ...entry, took: hasTaken ? [by.real] : [] },
        ...(withReader ? { reader_id: readerId } : {}),
      },
    ]);
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    by.nextSeq++;
    this.#model.voidAll(
      [
        { id, took: hasTaken ? [by.model] : [], amountMicroUsd },
        ...(withReader ? [{ id: readerId, took: [], amountMicroUsd: null }] : []),
      ],
      by.own.sidecar.sidecarId,
      () => api.deps.random.newId('att', timestamp_ms),
      timestamp_ms,
    );
  }

  /** A person does. */
  async #answer(): Promise<void> {
    const pending = [...this.#model.approvals.values()].filter(({ status }) => status === 'pending');
    if (pending.length === 0) return;
    const approval = this.#chance.pick(pending);
    const word = this.#chance.happens(0.8) ? 'approve' : 'deny';
    expect((await api.call({ url: `/v1/approvals/${approval.id}/${word}`, body: {} })).status).toBe(200);
    if (word === 'deny') this.#model.end(approval, 'denied');
    else {
      approval.status = 'approved';
      approval.expiresAtMs = api.deps.clock.now() + approval.expiresInMs;
    }
  }

  async expectSame(): Promise<void> {
    expect(this.#ledger.findImbalance((id) => this.#holds.countsOf(id))).toBeNull();
    const [row] = await api.deps.sql<
      { leased: number }[]
    >`SELECT sum(leased)::bigint AS leased FROM quota_windows`;
    const leased = [...this.#ledger.windows.values()].reduce((sum, at) => sum + at.leased, 0);
    expect(row?.leased).toBe(leased);
    const voids = await api.deps.sql<{ id: string }[]>`
      SELECT refers_to AS id FROM attestations WHERE resolution = 'voided' ORDER BY 1`;
    expect(voids.map(({ id }) => id)).toEqual([...this.#chains.voided].sort());
    const approvals = await api.deps.sql<{ id: string; status: string }[]>`
      SELECT approval_id AS id, status FROM approvals ORDER BY 1`;
    expect(new Map(approvals.map(({ id, status }) => [id, status]))).toEqual(
      new Map([...this.#model.approvals.values()].map(({ id, status }) => [id, status])),
    );
    await expectSoundStore(api);
  }
}

const told = (answer: SettlementAnswer): object =>
  answer.kind === 'replayed' ? { ...answer, first: answer.first.attestation_id } : answer;

const answers = ['committed', 'conflict', 'none', 'replayed', 'suspended'];

it('settles as its model does, however often and in whatever order', { timeout }, async () => {
  const { gate_id } = await api.createGate({
    constraints: { spend_limits: { daily_usd: 100_000 }, approvals: { above_usd: 10 } },
  });
  const start = async (seed: bigint) => {
    const both = new Both(new Chance(seed, 'settlements'), gate_id);
    await both.begin();
    await both.begin();
    return both;
  };
  await playBeside(start, { steps: runs({ short: 150, long: 10_000 }), answers });
});
