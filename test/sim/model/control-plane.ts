import type { Static } from 'typebox';
import type { ChangeVerdict } from '../../../control-plane/outcomes/permit-change.ts';
import type { FoundLimit } from '../../../control-plane/quota/find-lanes.ts';
import type { Ed25519 } from '../../../shared/crypto/ed25519.ts';
import { idDigest } from '../../../shared/crypto/id-digest.ts';
import { keyset } from '../../../shared/crypto/keyset.ts';
import type { AccountId, AttestationId, PassportId, SidecarId, WalletId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import {
  isSharedParts,
  parseAttestationBatch,
  parseBatchItem,
  type ReadParts,
  readSharedParts,
  type ShippedRecord,
  type ShippedSettlementVoid,
} from '../../../shared/wire/sync/attestation-batch.ts';
import { type LeaseRequest, parseLeaseCall } from '../../../shared/wire/sync/lease-call.ts';
import { parseSettlementCall, type SettlementAnswer } from '../../../shared/wire/sync/settlement.ts';
import { type FeedPosition, feedChannel } from '../../../shared/wire/sync/sync.ts';
import type { AckRequest, Change } from '../../../shared/wire/sync/sync-schema.ts';
import type { Answer } from '../../../sidecar/replica/http-caller.ts';
import { ModelService } from '../../support/data/model-service.ts';
import type { SimulatedBus } from '../bus.ts';
import type { Chance } from '../chance.ts';
import type { Gate, Passport } from '../course.ts';
import type { Process } from '../loop.ts';
import { theLoop } from '../loop.ts';
import type { Request, Server } from '../network.ts';
import { Chains } from './chains.ts';
import { Holds } from './holds.ts';
import { counterOf, Ledger } from './ledger.ts';
import { Settlements } from './settlements.ts';
import { Wallets } from './wallets.ts';

interface Connection {
  readonly connectionId: string;
  readonly connectedAtMs: number;
  lastSeenMs: number;
  /** What it has acknowledged of the global feed. */
  ackedGlobal: number;
  /** Of the feed of its account. */
  ackedAccount: number;
}

interface Epoch {
  lastSeq: number;
  isWhole: boolean;
  end: 'returned' | 'kept' | null;
}

type Ack = Static<typeof AckRequest>;

/** How the replicas behave now. */
export interface ControlPlaneTrouble {
  /** Of answers that are 503, before or after the work. */
  readonly fails: number;
  /** Another release: it leaves out what this one may, and adds what a sidecar must ignore. */
  readonly release: 'this' | 'before' | 'after';
}

/**
 * A control plane without a database: its replicas share this object, and each call is one transaction. What
 * it promises to sidecars is what `control-plane` promises.
 */
export class ControlPlane {
  readonly service: ModelService;
  /** Of each account: the same global feed, and one of its own. */
  readonly #services: readonly ModelService[];
  readonly ledger = new Ledger();
  readonly chains: Chains;
  readonly holds: Holds;
  readonly settlements: Settlements;
  readonly sidecars = new Map<string, Connection>();
  readonly epochs = new Map<string, Epoch>();
  readonly gates = new Map<string, Gate>();
  readonly passports = new Map<string, Passport>();
  readonly wallets: Wallets;
  readonly voidRuns: { readonly sidecarId: string; readonly reason: string; readonly count: number }[] = [];
  trouble: ControlPlaneTrouble = { fails: 0, release: 'this' };
  /** Called with what an honest sidecar never causes. */
  readonly wrong: (sentence: string) => void;
  readonly #note: (line: string) => void;
  readonly #chance: Chance;
  readonly #recordForm: 1 | 2;
  readonly #bus: SimulatedBus;
  readonly #pollers = new Set<() => void>();
  #secrets = 0;

  constructor(deps: {
    readonly ed25519: Ed25519;
    readonly accountId: AccountId;
    /** Another account that has a sidecar. */
    readonly elsewhere: AccountId | null;
    readonly recordForm: 1 | 2;
    readonly chance: Chance;
    readonly bus: SimulatedBus;
    readonly wrong: (sentence: string) => void;
    readonly note: (line: string) => void;
  }) {
    const { ed25519, elsewhere } = deps;
    this.service = new ModelService(ed25519, deps.accountId);
    this.#services = [
      this.service,
      ...(elsewhere === null ? [] : [new ModelService(ed25519, elsewhere, this.service)]),
    ];
    this.#chance = deps.chance;
    this.#recordForm = deps.recordForm;
    this.#bus = deps.bus;
    this.wrong = deps.wrong;
    this.#note = deps.note;
    const { kid } = this.service.makeKey('attestation');
    const signer = deps.ed25519.signer(new Uint8Array(32).fill(3));
    this.chains = new Chains({
      kid,
      sign: (message) => Buffer.from(signer.sign(Buffer.from(message))).toString('base64url'),
    });
    this.wallets = new Wallets(({ key, status }) =>
      this.change('global', {
        kind: 'issuer.standing',
        body: { issuer: key, standing: status === 'frozen' ? 'suspended' : 'active', of: 'wallet' },
      }),
    );
    this.ledger.onExcess = (excess) => this.wrong(`a holder returns ${excess}`);
    this.holds = new Holds({
      chains: this.chains,
      ledger: this.ledger,
      takeOf: (id) => this.takes.get(id),
      ruleOf: (gateId) => this.gates.get(gateId)?.holds ?? null,
      makeId: () => this.#newId(),
    });
    this.settlements = new Settlements(this.ledger, this.chains, this.holds, {
      policyVersionOf: (gateId) => this.gates.get(gateId)?.body.policy_version ?? null,
      blockOf: (passportId) => {
        const { standing } = this.passports.get(passportId) ?? { standing: 'active' };
        if (standing !== 'active') return `passport_${standing}`;
        const walletId = this.wallets.walletOf(passportId as PassportId);
        return walletId !== null && this.wallets.isFrozen(walletId) ? 'wallet_frozen' : null;
      },
      isConnected: (id) => this.#isConnected(id),
      isStandingOver: (counter) => {
        const [, gateId = '', id = ''] = counter.split(':');
        const known = this.gates.get(gateId)?.body.standing_approvals ?? [];
        return id.startsWith('sappr_') && known.every((each) => each.standing_approval_id !== id);
      },
      laneOf: (passportId, lane) => this.wallets.laneOf(passportId as PassportId, lane),
      walletOf: (record) => this.wallets.namedBy(record),
    });
  }

  get nowMs(): UnixMillis {
    return Math.floor(theLoop().trueMs) as UnixMillis;
  }

  get takes() {
    return this.settlements.takes;
  }

  keysetOf(ed25519: Ed25519) {
    return keyset(ed25519, this.service.keys);
  }

  serviceOf(accountId: string): ModelService {
    return this.#services.find((each) => each.accountId === accountId) ?? this.service;
  }

  /** One transaction; sidecars hear of it by the bus, or when they ask. */
  change(feed: 'account' | 'global', change: Change, service = this.service): void {
    const entry = service.change(feed, change);
    this.#bus.publish(feedChannel(service.feedId(feed)), JSON.stringify(entry));
    for (const wake of [...this.#pollers]) wake();
  }

  putGate(gate: Gate): void {
    this.gates.set(gate.body.gate_id, gate);
    const service = this.serviceOf(gate.body.account_id);
    this.change('account', { kind: 'gate.put', body: gate.body }, service);
  }

  setStanding(passport: Passport, standing: Passport['standing']): void {
    passport.standing = standing;
    passport.changedAtMs = theLoop().nowMs;
    passport.changedAtRevision = this.service.entries.global.length + 1;
    this.#tellStanding(passport);
  }

  /** An active one is told to be in a wallet where its token does not say so. */
  #tellStanding({ id, standing, walletId }: Passport): void {
    const isTold = standing === 'active' && walletId === null && this.wallets.walletOf(id) !== null;
    this.change('global', {
      kind: 'passport.standing',
      body: {
        passport: idDigest(id),
        ...(isTold ? ({ standing: 'suspended', in_wallet: true } as const) : { standing }),
        expired_by_day: null,
      },
    });
  }

  putPassport(passport: Passport): void {
    this.passports.set(passport.id, passport);
    if (passport.walletId !== null) this.wallets.issue(passport.id, passport, passport.walletId, this.nowMs);
  }

  move(passport: Passport, walletId: WalletId | null): void {
    this.wallets.put(passport.id, passport, walletId, this.nowMs);
    this.#tellStanding(passport);
  }

  beat(replica: string): void {
    const beat = (service: ModelService, feed: 'account' | 'global'): void => {
      const told = service.heartbeat(feed, this.nowMs, replica);
      this.#bus.publish(feedChannel(service.feedId(feed)), JSON.stringify(told));
    };
    for (const service of this.#services) beat(service, 'account');
    beat(this.service, 'global');
  }

  #isConnected(sidecarId: string): boolean {
    const known = this.sidecars.get(sidecarId);
    return known !== undefined && known.lastSeenMs > this.nowMs - limits.sidecarConnectedMs;
  }

  /** `POST /attestations/:id/refund`; null: the PERMIT is not on record yet. */
  refund(id: string, amountMicroUsd: MicroUsd | null): ChangeVerdict | null {
    const verdict = this.holds.change(id, { kind: 'refund', amountMicroUsd }, this.nowMs);
    this.#expectBalance('a refund');
    return verdict;
  }

  /** What every replica does again and again. */
  sweep(): void {
    this.settlements.expireOverdue(this.nowMs);
    this.holds.applyReported(this.nowMs);
    this.holds.expire(this.nowMs);
    this.#expectBalance('outcomes');
  }

  /** A replica of it, as a process. */
  replica(process: Process): Server {
    return {
      process,
      handle: (request, reply) => {
        const serviceMs = this.#chance.between(0.5, 6);
        // As in `Network`: a connect that a paused replica carries out for a process that has died meanwhile
        // would end the connection of its successor.
        const isLate = (): boolean => request.path === 'connect' && !request.isSenderAlive();
        theLoop().schedule(process, serviceMs, 'io', () => {
          if (!isLate()) this.#serve(process, request, reply);
        });
      },
    };
  }

  #serve(process: Process, request: Request, reply: (answer: Answer) => void): void {
    const { fails } = this.trouble;
    if (this.#chance.happens(fails)) {
      if (this.#chance.happens(0.5)) this.#answer(process, request, () => undefined);
      reply(errorAnswer(503, 'service_unavailable'));
      return;
    }
    this.#answer(process, request, (answer) => {
      this.#note(`${process.name} ${request.path} ${answer.status}`);
      reply(answer);
    });
  }

  #answer(process: Process, request: Request, reply: (answer: Answer) => void): void {
    const body: unknown = request.text === null ? null : JSON.parse(request.text);
    // Its key is the name of its account.
    const { authorization = '' } = request.headers;
    const service = this.serviceOf(authorization.replace('Bearer ', ''));
    switch (request.path) {
      case 'connect':
        reply(this.#connect(process, service, body as { sidecar_id: SidecarId; process: string }));
        return;
      case 'snapshot':
        reply(ok(this.#snapshot(service)));
        return;
      case 'changes':
        this.#changes(process, service, request.query, reply);
        return;
      case 'ack':
        reply(this.#ack(body as Ack));
        return;
      case 'goodbye':
        reply(ok({}));
        return;
      case 'history':
        reply(
          this.trouble.release === 'before'
            ? errorAnswer(404, 'not_found')
            : ok({ generation, state: 'whole' }),
        );
        return;
      // It certifies none, so no receipt is issued: no client of the simulation asks for one.
      case 'receipt-key':
        reply(errorAnswer(404, 'not_found'));
        return;
      case 'leases':
        reply(this.#leases(body, service.accountId));
        return;
      case 'settlements':
        reply(this.#settle(body, service.accountId, request.isRepeat));
        return;
      case 'attestations':
        reply(this.#ingest(body, service.accountId));
        return;
      default:
        throw new Error(`the model serves no ${request.path}`);
    }
  }

  #connect(
    process: Process,
    { accountId }: ModelService,
    { sidecar_id: sidecarId, process: caller }: { sidecar_id: SidecarId; process: string },
  ): Answer {
    const known = this.sidecars.get(sidecarId);
    const connectedAtMs = Math.max(this.nowMs, (known?.connectedAtMs ?? 0) + 1);
    // The release before took each call for a process of its own: a fault of it that is not played.
    const connectionId = `${connectedAtMs}.${caller}`;
    this.sidecars.set(sidecarId, {
      connectionId,
      connectedAtMs,
      lastSeenMs: this.nowMs,
      ackedGlobal: 0,
      ackedAccount: 0,
    });
    return ok({
      account_id: accountId,
      connection_id: connectionId,
      replica: process.name,
      now_ms: this.nowMs,
      ...this.#formTaken,
    });
  }

  #statusOf(sidecarId: string, connectionId: string): 'newest' | 'superseded' | 'unknown' {
    const known = this.sidecars.get(sidecarId);
    if (known === undefined) return 'unknown';
    if (known.connectionId.split('.')[1] === connectionId.split('.')[1]) return 'newest';
    return known.connectedAtMs > Number.parseInt(connectionId, 10) ? 'superseded' : 'unknown';
  }

  /** Null: it is the newest connection. */
  #refusalOf(
    of: { readonly sidecar_id: string; readonly connection_id: string },
    by: 'feed' | 'others',
  ): Answer | null {
    const status = this.#statusOf(of.sidecar_id, of.connection_id);
    if (status === 'newest') return null;
    if (status === 'unknown') return errorAnswer(409, 'connection_unknown');
    return by === 'feed'
      ? errorAnswer(412, 'precondition_failed')
      : errorAnswer(409, 'connection_superseded');
  }

  #snapshot(service: ModelService): object {
    const { release } = this.trouble;
    return service.snapshot({
      taken_at_ms: this.nowMs,
      ...(release !== 'before' && { generation, earlier_generations: [] }),
    });
  }

  #changes(
    process: Process,
    service: ModelService,
    query: URLSearchParams,
    reply: (answer: Answer) => void,
  ): void {
    const of = (name: string) => query.get(name) ?? '';
    const sender = { sidecar_id: of('sidecar_id'), connection_id: of('connection_id') };
    const refusal = this.#refusalOf(sender, 'feed');
    if (refusal !== null) {
      reply(refusal);
      return;
    }
    const after = {
      account: { revision: Number(of('account_after')), mark: of('account_mark') },
      global: { revision: Number(of('global_after')), mark: of('global_mark') },
    };
    this.#noteSeen(sender.sidecar_id, after.global.revision, after.account.revision);
    const startedAtMs = theLoop().nowMs;
    const waitMs = Number(of('wait_ms'));
    const tell = (): void =>
      reply(ok(this.#newsFor({ process, service, after, heldMs: theLoop().nowMs - startedAtMs })));
    if (waitMs === 0 || hasNews(service, after)) {
      tell();
      return;
    }
    const over = (): void => {
      if (!this.#pollers.delete(wake)) return;
      timer.cancel();
      tell();
    };
    const wake = (): void => {
      theLoop().schedule(process, 0.2, 'io', over);
    };
    const timer = theLoop().schedule(process, waitMs, 'timer', over);
    this.#pollers.add(wake);
  }

  #newsFor({
    process,
    service: { entries },
    after,
    heldMs,
  }: {
    readonly process: Process;
    readonly service: ModelService;
    readonly after: FeedPositions;
    readonly heldMs: number;
  }): object {
    const isInHistory = (['account', 'global'] as const).every((feed) => {
      const { revision, mark } = after[feed];
      return revision === 0 || entries[feed][revision - 1]?.signature === mark;
    });
    return {
      entries: isInHistory
        ? [...entries.global.slice(after.global.revision), ...entries.account.slice(after.account.revision)]
        : [],
      account_head: entries.account.length,
      global_head: entries.global.length,
      heads_age_ms: 0.5,
      held_ms: heldMs,
      replica: process.name,
      now_ms: this.nowMs,
      snapshot_needed: !isInHistory,
      ...(this.trouble.release !== 'before' && { generation }),
      ...this.#formTaken,
      ...(this.trouble.release === 'after' && { of_a_later_release: true }),
    };
  }

  /** In which form it wants records; the release before knows one. */
  get #formTaken(): object {
    return this.trouble.release === 'before' ? {} : { record_form: this.#recordForm };
  }

  #noteSeen(sidecarId: string, globalRevision: number, accountRevision: number): void {
    const known = this.sidecars.get(sidecarId);
    if (known === undefined) return;
    known.lastSeenMs = this.nowMs;
    known.ackedGlobal = Math.max(known.ackedGlobal, globalRevision);
    known.ackedAccount = Math.max(known.ackedAccount, accountRevision);
  }

  #ack(body: Ack): Answer {
    const refusal = this.#refusalOf(body, 'feed');
    if (refusal !== null) return refusal;
    this.#noteSeen(body.sidecar_id, body.global_revision, body.account_revision);
    return ok({});
  }

  #leases(body: unknown, accountId: AccountId): Answer {
    const call = parseLeaseCall(body);
    const refusal = this.#refusalOf(call, 'others');
    if (refusal !== null) return refusal;
    const answer = this.ledger.lease(call, {
      limitOf: (ask) => this.#limitOf(ask, accountId),
      isConnected: (id) => this.#isConnected(id),
      hasEnded: (id, epoch) => (this.epochs.get(`${id} ${epoch}`)?.end ?? null) !== null,
      nowMs: this.nowMs,
    });
    this.#expectBalance('a lease call');
    if (answer === 'holder_unknown') return errorAnswer(409, 'holder_unknown');
    const grants =
      this.trouble.release === 'before' ? answer.grants.map(({ lent: _, ...grant }) => grant) : answer.grants;
    // Wallets begin once every replica knows them, so the release before is never asked for any.
    if (call.wallets === undefined) return ok({ grants });
    const wallets = call.wallets.map((asked) => {
      const passport = this.passports.get(asked.passport_id);
      return passport === undefined ? null : this.wallets.levelsOf(accountId, asked, passport.tokenHash);
    });
    return ok({ grants, wallets });
  }

  /** One that has ended lends nothing: a person is asked then. */
  #standingLimit(gateId: string | null, id: string): FoundLimit {
    const terms = this.gates
      .get(gateId ?? '')
      ?.body.standing_approvals?.find((each) => each.standing_approval_id === id);
    return terms === undefined || terms.expires_at_ms <= this.nowMs
      ? { limit: 0, endsAtMs: null }
      : { limit: terms.total_micro_usd, endsAtMs: terms.expires_at_ms };
  }

  #limitOf(ask: LeaseRequest, accountId: AccountId): FoundLimit | null {
    if (ask.standing_approval_id !== undefined)
      return this.#standingLimit(ask.gate_id, ask.standing_approval_id);
    if (ask.wallet !== undefined) return this.wallets.limitOf(ask, accountId, this.nowMs);
    const passport = ask.passport_id === null ? null : (this.passports.get(ask.passport_id) ?? null);
    if (ask.passport_id !== null && passport?.tokenHash !== ask.token_hash) return null;
    const owner = ask.gate_id === null ? passport : this.gates.get(ask.gate_id);
    const counter = counterOf(ask);
    const found = owner?.limits.find(
      (each) =>
        counter.startsWith(`${each.kind}:`) &&
        each.window === ask.window &&
        (ask.gate_id === null || (each.per === 'passport') === (ask.passport_id !== null)),
    );
    return found === undefined ? null : { limit: found.limit, endsAtMs: null };
  }

  #settle(body: unknown, accountId: AccountId, isRepeat: boolean): Answer {
    const call = parseSettlementCall(body, accountId);
    const refusal = this.#refusalOf(call, 'others');
    if (refusal !== null) return refusal;
    const sender = {
      sidecarId: call.sidecar_id,
      accountId,
      holder: call.holder,
      nowMs: this.nowMs,
      isRepeat,
    };
    const settled = this.settlements.settleAll(call.settlements, sender);
    const answers = settled.map((answer, place): SettlementAnswer => {
      const settlement = call.settlements[place];
      if (answer.kind === 'refused' && answer.is_passing !== true && !/ended|too old/.test(answer.message))
        this.wrong(`the ledger refuses to settle: ${answer.message}`);
      // Best effort: a close may fail, and the sidecar voids then.
      if (settlement === undefined || this.trouble.release === 'before' || this.#chance.happens(0.1))
        return answer;
      return this.settlements.close(settlement, answer, sender)
        ? ({ ...answer, is_closed: true } as SettlementAnswer)
        : answer;
    });
    this.#expectBalance('settlements');
    return ok({ answers });
  }

  #ingest(body: unknown, accountId: AccountId): Answer {
    const batch = parseAttestationBatch(body);
    const refusal = this.#refusalOf(
      { sidecar_id: batch.sidecarId, connection_id: batch.connectionId },
      'others',
    );
    if (refusal !== null) return refusal;
    const source = { sidecarId: batch.sidecarId, accountId };
    const key = `${batch.sidecarId} ${batch.epoch}`;
    const epoch = this.epochs.get(key) ?? { lastSeq: 0, isWhole: true, end: null };
    this.epochs.set(key, epoch);
    if (batch.firstSeq > epoch.lastSeq + 1)
      return errorAnswer(409, 'sequence_gap', { expected_seq: epoch.lastSeq + 1 });
    let next = batch.firstSeq;
    let shared: ReadParts | undefined;
    const records: ShippedRecord[] = [];
    const voids: ShippedSettlementVoid[] = [];
    let isWhole = true;
    for (const value of batch.items) {
      if (isSharedParts(value)) {
        shared = readSharedParts(value);
        continue;
      }
      const item = parseBatchItem(value, source, shared);
      next += item.kind === 'void' ? item.count : 1;
      if (next - 1 <= epoch.lastSeq) continue;
      if (item.kind === 'malformed') this.wrong(`a record is malformed: ${item.message}`);
      else if (item.kind === 'void')
        this.voidRuns.push({ sidecarId: batch.sidecarId, reason: item.reason, count: item.count });
      else if (item.kind === 'record') records.push(item);
      else if (item.kind === 'outcome') this.holds.arrive(item);
      else voids.push(item);
      if (item.kind === 'record' || item.kind === 'settlement_void') isWhole &&= item.took !== null;
      else isWhole &&= item.kind === 'outcome';
    }
    this.#store(batch.sidecarId, records, voids);
    if (next - 1 > epoch.lastSeq) {
      epoch.lastSeq = next - 1;
      epoch.isWhole &&= isWhole;
    }
    if (batch.end !== null && epoch.end === null) {
      epoch.end = batch.end.nothingLost && epoch.isWhole && epoch.lastSeq === next - 1 ? 'returned' : 'kept';
      if (epoch.end === 'returned') this.ledger.endEpoch(batch.sidecarId, batch.epoch);
    }
    this.#expectBalance('ingest');
    return ok({ next_seq: Math.max(next, epoch.lastSeq + 1) });
  }

  #store(
    sidecarId: string,
    records: readonly ShippedRecord[],
    voids: readonly ShippedSettlementVoid[],
  ): void {
    this.settlements.voidAll(
      voids.flatMap(({ voids: id, readerId, took, amountMicroUsd }) => [
        { id, took: took ?? [], amountMicroUsd },
        ...(readerId === null ? [] : [{ id: readerId, took: [], amountMicroUsd: null }]),
      ]),
      sidecarId,
      () => this.#newId(),
      this.nowMs,
    );
    for (const { record: shipped, took } of records) {
      if (this.chains.records.has(shipped.id)) {
        this.wrong(`${shipped.id} is shipped under two numbers`);
        continue;
      }
      const record = this.settlements.named(shipped);
      const take = { sidecarId, took: took ?? [], amountMicroUsd: record.amountMicroUsd };
      const fault = record.decision === 'PERMIT' ? this.ledger.whyNot(take, null) : null;
      if (fault !== null) this.wrong(`ingest refuses ${record.id}: ${fault}`);
      if (record.decision === 'PERMIT') {
        this.ledger.post(record.id, take);
        this.settlements.takes.set(record.id, take);
        this.holds.begin(record);
      }
      this.chains.append(record);
    }
  }

  #newId(): AttestationId {
    return `att_${String(++this.#secrets).padStart(26, '0')}` as AttestationId;
  }

  #expectBalance(after: string): void {
    const imbalance = this.ledger.findImbalance((id) => this.holds.countsOf(id));
    if (imbalance !== null) this.wrong(`after ${after}: ${imbalance}`);
  }
}

interface FeedPositions {
  readonly account: FeedPosition;
  readonly global: FeedPosition;
}

const hasNews = ({ entries }: ModelService, after: FeedPositions): boolean =>
  after.account.revision !== entries.account.length || after.global.revision !== entries.global.length;

const generation = 'generation-1';

const ok = (body: object): Answer => ({ status: 200, text: JSON.stringify(body) });

const errorAnswer = (status: number, code: string, more: object = {}): Answer => ({
  status,
  text: JSON.stringify({ error: { code, message: `simulated ${code}`, param: null, ...more } }),
});
