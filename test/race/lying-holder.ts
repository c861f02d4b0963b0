import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { renderLane, type WalletLevel } from '../../shared/wire/sync/lease-call.ts';
import { syncVersion } from '../../shared/wire/sync/sync.ts';
import type { Chance } from '../support/base/chance.ts';
import { call } from '../support/base/http-client.ts';
import type { Installation } from '../support/programs/installation.ts';
import type { Course, Runner } from './course.ts';

/**
 * A sidecar of a foreign account that was shown the tokens of a course, and says of their leases what helps
 * it: that a PERMIT took what it did not, that it is void, that units come back which were used, that its
 * spool has ended. What it permits at its own gate is its own business; the caps of the passports are not.
 */
export interface LyingHolder {
  /** What it has said so far, by kind, and how often it was believed. */
  readonly told: ReadonlyMap<string, number>;
  readonly gateId: string;
  stop(): Promise<void>;
}

interface LyingOptions {
  readonly installation: Installation;
  readonly controlPlanes: readonly string[];
  /** Asked before each lie. */
  readonly course: () => Course;
  readonly chance: Chance;
}

const random = systemRandom();
const usd = 1_000_000;
const pauseMsMax = 40;

export async function startLyingHolder(options: LyingOptions): Promise<LyingHolder> {
  const { installation } = options;
  const made = await installation.api('POST', '/accounts', { name: 'Foreign', plan: 'enterprise' });
  if (made.status !== 201) throw new Error(`account: ${JSON.stringify(made.body)}`);
  const key: string = made.body.api_key.key;
  const [origin = ''] = options.controlPlanes;
  const gate = await call(`${origin}/v1/gates`, {
    method: 'POST',
    key,
    body: { name: 'gate', trust_level: 'L1', constraints: { trusted_issuers: ['*'] } },
  });
  if (gate.status !== 201) throw new Error(`gate: ${JSON.stringify(gate.body)}`);
  const gateId: string = gate.body.gate_id;
  const told = new Map<string, number>();
  let isOver = false;
  const lying = (async () => {
    while (!isOver) {
      // One process after the other: what a call has done is not known where no answer came.
      const liar = new Liar({ ...options, key, gateId, told });
      await liar.lie(() => isOver).catch(() => undefined);
      await pause(options.chance.below(pauseMsMax));
    }
  })();
  return {
    told,
    gateId,
    stop: async () => {
      isOver = true;
      await lying;
    },
  };
}

interface Victim {
  readonly passport: Runner;
  /** Each of its PERMITs takes from all of these. */
  readonly drawn: readonly Drawn[];
}

interface Drawn {
  readonly kind: 'passport_rate' | 'passport_spend' | 'wallet_rate' | 'wallet_spend';
  readonly window: WindowName;
  /** The lane, of a wallet. */
  readonly wallet?: string;
}

class Liar {
  readonly #options: LyingOptions & {
    readonly key: string;
    readonly gateId: string;
    readonly told: Map<string, number>;
  };
  readonly #sidecarId = random.newId('side', Date.now() as UnixMillis);
  #connectionId = '';
  #holder = '';
  #epoch = '';
  #leaseSeq = 0;
  #nextSeq = 1;
  /** By holder and window. */
  readonly #leases = new Map<string, number>();
  /** By passport: what its wallets are was asked once. */
  readonly #inWallets = new Map<string, readonly Drawn[]>();

  constructor(options: LyingOptions & { key: string; gateId: string; told: Map<string, number> }) {
    this.#options = options;
  }

  async lie(isOver: () => boolean): Promise<void> {
    const connected = await this.#post('connect', { sync_version: syncVersion, now_ms: Date.now() });
    this.#connectionId = connected.connection_id;
    this.#beginAnew();
    const { chance, course } = this.#options;
    const lies = [
      this.#settleTooMuch,
      this.#voidTwice,
      this.#returnWhatIsUsed,
      this.#shipTooMuch,
      this.#takeFromOthers,
      this.#endTooEarly,
      this.#suspendWhatIsUsed,
      this.#takeFromNone,
      this.#takeFromAnotherWallet,
    ];
    while (!isOver()) {
      const victims = victimsOf(course());
      await chance.pick(lies).call(this, await this.#lookUp(chance.pick(victims)));
      await pause(chance.below(pauseMsMax));
    }
  }

  /** What its wallets are, too. */
  async #lookUp({ passport, drawn }: Victim): Promise<Victim> {
    if (passport.walletId === undefined) return { passport, drawn };
    const known = this.#inWallets.get(passport.id) ?? (await this.#askWallets(passport));
    this.#inWallets.set(passport.id, known);
    return { passport, drawn: known };
  }

  async #askWallets(passport: Runner): Promise<readonly Drawn[]> {
    const asked = { passport_id: passport.id, token_hash: sha256Hex(passport.token) };
    const [levels = []] = (await this.#leaseCall([], [], { wallets: [asked] })).wallets;
    return levels.flatMap(({ key, windows }: WalletLevel) =>
      windows.map(({ kind, window, lane }) => ({ kind, window, wallet: renderLane(key, lane) })),
    );
  }

  #beginAnew(): void {
    this.#holder = randomBytes(16).toString('hex');
    this.#epoch = randomBytes(16).toString('hex');
    this.#leaseSeq = 0;
    this.#nextSeq = 1;
    this.#leases.clear();
  }

  /** One millionth and one request are leased, a thousand dollars permitted and voided. */
  async #settleTooMuch(victim: Victim): Promise<void> {
    const took = await this.#lease(victim, 1);
    if (took === null) return;
    const record = this.#record(victim, 1_000 * usd, took);
    this.#note('too much settled', await this.#settle(victim, record));
    await this.#ship([this.#void(record.id, took, 1_000 * usd)]);
  }

  async #voidTwice(victim: Victim): Promise<void> {
    const units = isMoney(victim) ? 10_000 : 1;
    const took = await this.#lease(victim, units);
    if (took === null) return;
    const record = this.#record(victim, units, took);
    this.#note('settled', await this.#settle(victim, record));
    for (const _again of [1, 2]) await this.#ship([this.#void(record.id, took, 1_000 * usd)]);
    // Under an id that nobody knows.
    await this.#ship([this.#void(this.#newId(), took, 1_000 * usd)]);
  }

  async #returnWhatIsUsed(victim: Victim): Promise<void> {
    const units = isMoney(victim) ? 10_000 : 1;
    const took = await this.#lease(victim, units);
    if (took === null) return;
    const record = this.#record(victim, units, took);
    this.#note('settled', await this.#settle(victim, record));
    const returns = this.#windows(victim).map((window) => ({ ...window, units: 1_000 * usd }));
    await this.#leaseCall([], returns);
    await this.#ship([this.#void(record.id, took, units)]);
  }

  async #shipTooMuch(victim: Victim): Promise<void> {
    const took = await this.#lease(victim, 1);
    if (took === null) return;
    const records = [1, 2].map(() => this.#record(victim, 1_000 * usd, took));
    this.#note('too much shipped', await this.#ship(records));
    this.#note('shipped', await this.#ship([this.#record(victim, 1, took)]));
    await this.#ship([this.#void(this.#newId(), took, 1_000 * usd)]);
  }

  async #takeFromOthers(victim: Victim): Promise<void> {
    const took = await this.#lease(victim, 1);
    if (took === null) return;
    const back = 1 + this.#options.chance.below(20);
    const others = took.map((leaseId) => Math.max(1, leaseId - back));
    const record = this.#record(victim, 100, others);
    this.#note('settled from others', await this.#settle(victim, record));
    await this.#ship([this.#void(record.id, others, 1_000 * usd)]);
  }

  /** A thousand dollars, of which no limit knows. */
  async #takeFromNone(victim: Victim): Promise<void> {
    const record = this.#record(victim, 1_000 * usd, []);
    this.#note('settled from nothing', await this.#settle(victim, record));
    this.#note('shipped from nothing', await this.#ship([this.#record(victim, 1_000 * usd, [])]));
  }

  /** What another wallet was leased is taken for a passport that does not draw on it. */
  async #takeFromAnotherWallet(victim: Victim): Promise<void> {
    const { chance, course } = this.#options;
    const others = victimsOf(course()).filter(
      ({ passport: { walletId } }) => walletId !== undefined && walletId !== victim.passport.walletId,
    );
    if (others.length === 0) return;
    const other = await this.#lookUp(chance.pick(others));
    const took = await this.#lease(other, 10_000);
    if (took === null) return;
    const record = this.#record(victim, 10_000, took);
    this.#note('settled from another wallet', await this.#settle(victim, record));
    await this.#ship([this.#void(record.id, took, 1_000 * usd)]);
  }

  async #endTooEarly(victim: Victim): Promise<void> {
    const took = await this.#lease(victim, 2);
    if (took === null) return;
    const record = this.#record(victim, 1, took);
    this.#note('settled', await this.#settle(victim, record));
    await this.#ship([], { end: { nothing_lost: true, torn_bytes: 0 } });
    await this.#ship([this.#void(record.id, took, 1_000 * usd)]);
    this.#beginAnew();
  }

  async #suspendWhatIsUsed(victim: Victim): Promise<void> {
    if (!isMoney(victim)) return;
    const units = 10_000;
    const took = await this.#lease(victim, units);
    if (took === null) return;
    await this.#settle(victim, this.#record(victim, units, took));
    const approvalId = random.newId('appr', Date.now() as UnixMillis);
    const settled = await this.#call('settlements', {
      holder: this.#holder,
      settlements: [
        {
          ...this.#bound(victim),
          kind: 'suspend',
          request_hash: newHash(),
          idempotency_key: null,
          approval_id: approvalId,
          permission_key: 'orders:create',
          amount_micro_usd: units,
          constraints_evaluated: [...checks, 'approval'],
          pii: [],
          expires_in_ms: 1_000,
          held: this.#windows(victim)
            .filter(({ kind }) => kind.endsWith('_spend'))
            .map((window) => ({ ...window, units })),
        },
      ],
    });
    this.#note('used money held', settled?.answers?.[0]?.kind === 'suspended');
    await this.#ship([this.#void(approvalId, took, units)]);
  }

  #note(what: string, isBelieved: boolean): void {
    const { told } = this.#options;
    const name = `${what}, ${isBelieved ? 'believed' : 'refused'}`;
    told.set(name, (told.get(name) ?? 0) + 1);
  }

  #newId = () => random.newId('att', Date.now() as UnixMillis);

  #bound({ passport }: Victim) {
    return {
      wanted_ms: 1_000,
      passport_id: passport.id,
      token_hash: sha256Hex(passport.token),
      gate_id: this.#options.gateId,
      gate_version: 1,
      reader_id: this.#newId(),
    };
  }

  #record({ passport }: Victim, amount: number, took: readonly number[]) {
    return {
      id: this.#newId(),
      request_hash: newHash(),
      amount_micro_usd: amount,
      timestamp_ms: Date.now(),
      took,
      chain_id: passport.id,
      passport_id: passport.id,
      token_hash: sha256Hex(passport.token),
      gate_id: this.#options.gateId,
      decision: 'PERMIT',
      reason: null,
      permission_key: 'orders:create',
      constraints_evaluated: checks,
      pii: [],
      caller_mode: 'live',
    };
  }

  #void = (id: string, took: readonly number[], amount: number) => ({
    voids: id,
    took,
    amount_micro_usd: amount,
    timestamp_ms: Date.now(),
  });

  async #settle(
    victim: Victim,
    record: { readonly id: string; readonly request_hash: string },
  ): Promise<boolean> {
    const settlement = {
      ...this.#bound(victim),
      kind: 'permit',
      approval_id: null,
      idempotency_key: record.id,
      request_hash: record.request_hash,
      record,
    };
    const body = { holder: this.#holder, settlements: [settlement] };
    return (await this.#call('settlements', body))?.answers?.[0]?.kind === 'committed';
  }

  async #ship(records: readonly object[], change: object = {}): Promise<boolean> {
    const body = { epoch: this.#epoch, first_seq: this.#nextSeq, records, ...change };
    const answer = await this.#call('attestations', body);
    if (answer === null) return false;
    this.#nextSeq = answer.next_seq;
    return true;
  }

  #counters = ({ passport, drawn }: Victim) =>
    drawn.map((each) => ({
      gate_id: null,
      passport_id: passport.id,
      token_hash: sha256Hex(passport.token),
      ...each,
    }));
  #windows = (victim: Victim) =>
    this.#counters(victim).map((each) => ({
      ...each,
      starts_at_ms: windowAt(each.window, Date.now() as UnixMillis).startsAtMs,
    }));

  /**
   * The leases of those windows, also where nothing more is left to lease. Null: of one there never was any.
   */
  async #lease(victim: Victim, units: number): Promise<readonly number[] | null> {
    const counters = this.#counters(victim);
    const asks = counters.map((counter) => {
      const wanted = counter.kind.endsWith('_rate') ? 1 : units;
      return { ...counter, units_min: wanted, units_needed: wanted, units_ahead: 0 };
    });
    const { grants } = await this.#leaseCall(asks, []);
    const ids = counters.map(({ passport_id: id, kind, wallet, window }, place) => {
      const name = `${this.#holder} ${wallet ?? id} ${kind} ${window}`;
      const leaseId: number | null = grants[place]?.lease_id ?? this.#leases.get(name) ?? null;
      if (leaseId !== null) this.#leases.set(name, leaseId);
      return leaseId;
    });
    const found = ids.filter((id) => id !== null);
    return found.length < ids.length ? null : found;
  }

  #leaseCall(asks: readonly object[], returns: readonly object[], change: object = {}): Promise<Answer> {
    const body = {
      holder: this.#holder,
      epoch: this.#epoch,
      seq: ++this.#leaseSeq,
      asks,
      returns,
      ...change,
    };
    return this.#post('leases', body);
  }

  /** Throws where it was not answered well. */
  async #post(what: string, body: object): Promise<Answer> {
    const answer = await this.#call(what, body);
    if (answer === null) throw new Error(`${what} was refused`);
    return answer;
  }

  /** Null: it was refused. Throws where no answer came. */
  async #call(what: string, body: object): Promise<Answer | null> {
    const { controlPlanes, key, chance } = this.#options;
    const answer = await call(`${chance.pick(controlPlanes)}/v1/sync/${what}`, {
      method: 'POST',
      key,
      body: {
        sidecar_id: this.#sidecarId,
        ...(what === 'connect' ? {} : { connection_id: this.#connectionId }),
        ...body,
      },
    });
    if (answer.status >= 500) throw new Error(`${what}: ${answer.status}`);
    return answer.status === 200 ? answer.body : null;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers are inspected member by member
type Answer = any;

const checks = ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit', 'rate_limit'];
const isMoney = ({ drawn }: Victim): boolean => drawn.some(({ kind }) => kind.endsWith('_spend'));
const newHash = (): string => `sha256:${randomBytes(32).toString('hex')}`;

/** The passports that have caps of their own or are in wallets, which are everybody's. */
function victimsOf({ caps, lanes }: Course): readonly Victim[] {
  const runners = new Map(lanes.flatMap(({ passports }) => passports.map((each) => [each.id, each])));
  const inWallets = chosenInWallets([...runners.values()]);
  const ofCaps = caps.flatMap(({ kind, window, gateId, passportId }): Victim[] => {
    const passport = gateId === null ? runners.get(passportId ?? '') : undefined;
    const isOwn = kind === 'passport_rate' || kind === 'passport_spend';
    return passport === undefined || !isOwn ? [] : [{ passport, drawn: [{ kind, window }] }];
  });
  return [...ofCaps, ...inWallets.map((passport) => ({ passport, drawn: [] }))];
}

/** A few of each wallet: else nobody would lie of anything else. */
function chosenInWallets(runners: readonly Runner[]): readonly Runner[] {
  const chosen = new Map(
    runners.flatMap((each) => (each.walletId === undefined ? [] : [[each.walletId, each]])),
  );
  return [...chosen.values()];
}
