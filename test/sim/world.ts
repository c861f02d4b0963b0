import { createHash } from 'node:crypto';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { SimulatedBus } from './bus.ts';
import { Chance } from './chance.ts';
import { Clients } from './clients.ts';
import { type Course, elsewhereFrom, type Gate, makeCourse } from './course.ts';
import { askingGate } from './course-standing.ts';
import { scaled } from './course-wallets.ts';
import { Disk, noTrouble } from './disk.ts';
import { chooseEd25519, chooseSignatures } from './edges/choose-ed25519.ts';
import { Loop, type Machine, Process, setLoop } from './loop.ts';
import { ControlPlane } from './model/control-plane.ts';
import type { Lease } from './model/ledger.ts';
import { fair, Network, type Server, setNetwork } from './network.ts';
import { Oracle, type Told } from './oracle.ts';
import { type Fault, isFault, makePlan, type Step, type WalletChange } from './plan.ts';
import { dataFolder, SidecarNode } from './sidecar-node.ts';

export interface RunOptions {
  /** Steps of the plan to leave out. */
  readonly without?: ReadonlySet<number>;
  /** Called with each line of the trace. */
  readonly onLine?: (line: string) => void;
}

export interface Result {
  readonly seed: bigint;
  /** Of all that happened, in its order. */
  readonly hash: string;
  /** The first thing that must not be; null: all is as promised. */
  readonly violation: string | null;
  readonly steps: readonly Step[];
  readonly simulatedMs: number;
  readonly events: number;
  /** Answers by what they said. */
  readonly counts: ReadonlyMap<string, number>;
}

const durationMs = 8_000;
const restMsMax = 40_000;
const restStepMs = 500;
/** Numbers of requests that the plan has not. */
const probesFrom = 1_000_000;
const probeMs = 3_500;

/** Plays one seed, from an empty disk to rest. */
export async function runSeed(seed: bigint, options: RunOptions = {}): Promise<Result> {
  chooseSignatures(seed);
  const world = new World(seed, options);
  const onUnhandled = (error: unknown): void => world.noteUnhandled(error);
  process.on('unhandledRejection', onUnhandled);
  try {
    return await world.run();
  } finally {
    process.off('unhandledRejection', onUnhandled);
    setLoop(null);
    setNetwork(null);
  }
}

class World {
  readonly #seed: bigint;
  readonly #options: RunOptions;
  readonly #ed25519: Ed25519 = chooseEd25519();
  readonly #course: Course;
  readonly #steps: readonly Step[];
  readonly #loop: Loop;
  readonly #network: Network;
  readonly #bus: SimulatedBus;
  readonly #controlPlane: ControlPlane;
  readonly #oracle: Oracle;
  readonly #nodes: SidecarNode[];
  readonly #clients: Clients;
  readonly #replicas: { process: Process; server: Server }[] = [];
  /** Whose events are what happens from outside. */
  readonly #outside: Process;
  readonly #people: Chance;
  readonly #hash = createHash('sha256');
  #violation: string | null = null;
  #troubledAtMs = Number.NEGATIVE_INFINITY;
  #healedAtMs = Number.POSITIVE_INFINITY;

  constructor(seed: bigint, options: RunOptions) {
    this.#seed = seed;
    this.#options = options;
    const ofWallets = new Chance(seed, 'wallets');
    const by = {
      ofWallets,
      ofStanding: new Chance(seed, 'standing approvals'),
      ofDisks: new Chance(seed, 'disks'),
    };
    this.#course = makeCourse(new Chance(seed, 'course'), by, this.#ed25519);
    this.#steps = makePlan(new Chance(seed, 'plan'), by, this.#course, durationMs);
    this.#loop = new Loop(this.#course.startsAtMs);
    setLoop(this.#loop);
    this.#network = new Network(new Chance(seed, 'network'));
    setNetwork(this.#network);
    this.#outside = new Process(outsideMachine(), 'outside');
    this.#bus = new SimulatedBus(this.#network);
    const wrong = (sentence: string) => this.#wrong(sentence);
    const note = (line: string) => this.#note(line);
    this.#controlPlane = new ControlPlane({
      ed25519: this.#ed25519,
      accountId: this.#course.accountId,
      elsewhere: this.#course.elsewhere?.accountId ?? null,
      recordForm: this.#course.recordForm,
      chance: new Chance(seed, 'control plane'),
      bus: this.#bus,
      wrong,
      note,
    });
    this.#oracle = new Oracle({
      controlPlane: this.#controlPlane,
      wrong,
      epochMs: this.#course.startsAtMs,
      fsyncMs: this.#course.fsyncMs,
      troubledAtMs: () => this.#troubledAtMs,
    });
    this.#nodes = Array.from(
      { length: this.#course.sidecars + (this.#course.elsewhere === null ? 0 : 1) },
      (_each, index) => new SidecarNode(index, { course: this.#course, seed, bus: this.#bus, note, wrong }),
    );
    this.#clients = new Clients({
      course: this.#course,
      nodes: this.#nodes,
      controlPlane: this.#controlPlane,
      oracle: this.#oracle,
      chance: new Chance(seed, 'clients'),
      ofRefunds: new Chance(seed, 'refunds'),
      note,
      wrong,
      process: this.#outside,
    });
    this.#people = new Chance(seed, 'people');
  }

  noteUnhandled(error: unknown): void {
    this.#wrong(`unhandled: ${error instanceof Error ? error.stack : String(error)}`);
  }

  async run(): Promise<Result> {
    const loop = this.#loop;
    Object.assign(globalThis, { simulationCounts: (what: string) => this.#clients.count(what) });
    loop.as(this.#outside, () => this.#setUp());
    try {
      await loop.runUntil(durationMs, () => this.#violation !== null);
      if (this.#violation === null) await this.#rest();
    } catch (error) {
      this.#wrong(`uncaught: ${error instanceof Error ? error.stack : String(error)}`);
    }
    for (const { process } of this.#nodes) if (process !== null) process.isAlive = false;
    for (const chain of this.#controlPlane.chains.chains.values())
      this.#hash.update(chain.at(-1)?.hash ?? '');
    return {
      seed: this.#seed,
      hash: this.#hash.digest('hex'),
      violation: this.#violation,
      steps: this.#steps,
      simulatedMs: loop.nowMs,
      events: loop.events,
      counts: this.#clients.counts,
    };
  }

  #setUp(): void {
    const { gates, passports, tree, standing, elsewhere } = this.#course;
    for (const made of tree?.wallets ?? []) this.#controlPlane.wallets.create(made, 0 as UnixMillis);
    for (const [place, gate] of gates.entries()) {
      const isAsking = place === askingGate && standing.length > 0;
      const body = isAsking ? { ...gate.body, standing_approvals: [...standing] } : gate.body;
      this.#putGate({ ...gate, body });
    }
    for (const gate of elsewhere?.gates ?? []) this.#putGate(gate);
    for (const passport of passports) {
      this.#controlPlane.putPassport(passport);
      this.#oracle.noteLimits(null, passport.id, passport.limits);
    }
    this.#noteWallets();
    for (const index of [0, 1]) this.#startReplica(index);
    for (const node of this.#nodes) node.start();
    this.#every(1_000, () => {
      for (const { process } of this.#replicas)
        if (process.isAlive && !process.isPaused) this.#controlPlane.beat(process.name);
    });
    this.#every(250, () => this.#answerApprovals());
    this.#every(500, () => {
      if (this.#replicas.some(({ process }) => process.isAlive && !process.isPaused))
        this.#controlPlane.sweep();
    });
    this.#steps.forEach((step, place) => {
      if (this.#options.without?.has(place)) return;
      this.#loop.schedule(this.#outside, step.atMs, 'io', () => {
        if (isFault(step)) this.#note(`${JSON.stringify(step)}`);
        if (isFault(step)) this.#happen(step);
        else this.#clients.ask(step);
      });
    });
  }

  #putGate(gate: Gate): void {
    this.#controlPlane.putGate(gate);
    this.#oracle.noteLimits(gate.body.gate_id, null, gate.limits);
    this.#oracle.noteStanding(gate.body);
  }

  #every(pauseMs: number, run: () => void): void {
    this.#loop.schedule(this.#outside, pauseMs, 'timer', () => {
      run();
      this.#every(pauseMs, run);
    });
  }

  #startReplica(index: number): void {
    const process = new Process(outsideMachine(), `replica ${index}.${Math.round(this.#loop.nowMs)}`);
    const server = this.#controlPlane.replica(process);
    this.#replicas[index] = { process, server };
    this.#network.servers[index] = server;
  }

  #later(afterMs: number, run: () => void): void {
    this.#loop.schedule(this.#outside, afterMs, 'io', run);
  }

  #happen(fault: Fault): void {
    if (isBetween(fault)) this.#troubledAtMs = Number.POSITIVE_INFINITY;
    switch (fault.kind) {
      case 'crash':
        this.#node(fault.sidecar).crash(fault.forMs);
        return;
      case 'cut power':
        this.#cutPower(this.#node(fault.sidecar), fault.forMs);
        return;
      case 'stop':
        this.#node(fault.sidecar).stop(fault.forMs);
        return;
      case 'unlink':
        this.#unlink(this.#node(fault.sidecar));
        return;
      case 'pause':
        this.#node(fault.sidecar).pause(fault.forMs);
        return;
      case 'cut': {
        const { name } = this.#node(fault.sidecar).machine;
        this.#network.cut(name, fault.how);
        this.#later(fault.forMs, () => this.#network.cut(name, 'none'));
        return;
      }
      case 'weather':
        this.#network.weather = weathers[fault.how];
        this.#later(fault.forMs, () => {
          this.#network.weather = fair;
        });
        return;
      case 'disk':
        this.#troubleDisk(this.#node(fault.sidecar), fault);
        return;
      case 'clock':
        this.#node(fault.sidecar).machine.wallSkewMs += fault.jumpMs;
        return;
      case 'crash replica':
        (this.#replicas[fault.replica] as { process: Process }).process.isAlive = false;
        this.#later(fault.forMs, () => this.#startReplica(fault.replica));
        return;
      case 'pause replica': {
        const { process } = this.#replicas[fault.replica] as { process: Process };
        if (process.isPaused) return;
        this.#loop.pause(process);
        this.#later(fault.forMs, () => this.#loop.resume(process));
        return;
      }
      case 'bus down':
        this.#bus.isDown = true;
        this.#later(fault.forMs, () => this.#bus.restart());
        return;
      case 'control plane fails':
        this.#controlPlane.trouble = { ...this.#controlPlane.trouble, fails: fault.fails };
        this.#later(fault.forMs, () => {
          this.#controlPlane.trouble = { ...this.#controlPlane.trouble, fails: 0 };
        });
        return;
      case 'upgrade':
        this.#controlPlane.trouble = { ...this.#controlPlane.trouble, release: fault.release };
        return;
      case 'standing': {
        const passport = this.#course.passports[fault.passport];
        if (passport === undefined || passport.standing === 'revoked' || passport.standing === fault.standing)
          return;
        this.#controlPlane.setStanding(passport, fault.standing);
        return;
      }
      case 'change gate':
        this.#changeGate(fault);
        return;
      case 'end standing':
        this.#endStanding(this.#course.standing[fault.standing]?.standing_approval_id ?? '');
        return;
      default:
        this.#changeWallet(fault);
        this.#noteWallets();
    }
  }

  #endStanding(id: string): void {
    const gate = this.#controlPlane.gates.get(this.#course.gates[askingGate]?.body.gate_id ?? '');
    const { standing_approvals: known = [] } = gate?.body ?? {};
    const left = known.filter((each) => each.standing_approval_id !== id);
    if (gate === undefined || left.length === known.length) return;
    const { version } = gate.body;
    this.#putGate({ ...gate, body: { ...gate.body, version: version + 1, standing_approvals: left } });
  }

  #changeWallet(change: WalletChange): void {
    const { wallets, nowMs } = this.#controlPlane;
    const { tree, passports } = this.#course;
    const made = change.wallet === null ? null : tree?.wallets[change.wallet % tree.wallets.length];
    if (tree === null || made === undefined) return;
    if (change.kind === 'move') {
      const passport = passports[change.passport];
      if (passport === undefined || passport.accountId !== tree.accountId) return;
      const walletId = made?.walletId ?? null;
      if (passport.standing === 'revoked' || wallets.walletOf(passport.id) === walletId) return;
      this.#controlPlane.move(passport, walletId);
      this.#clients.count('change: move');
      return;
    }
    if (made === null) return;
    const { walletId } = made;
    const { limits, share, status } = wallets.get(walletId);
    switch (change.kind) {
      case 'move wallet': {
        const { below } = change;
        const parentId =
          below === null ? null : (tree.wallets[below % tree.wallets.length]?.walletId ?? null);
        if (wallets.get(walletId).parentId === parentId || wallets.misplaced(walletId, parentId) !== null)
          return;
        wallets.moveBelow(walletId, parentId, nowMs);
        this.#oracle.wallets.noteWalletMove();
        break;
      }
      case 'scale wallet':
      case 'share wallet': {
        const wanted =
          change.kind === 'scale wallet'
            ? { limits: scaled(limits, change.factor), share }
            : { limits, share: change.share };
        if (wanted.limits === limits && wanted.share === share) return;
        if (wallets.overbooked(walletId, wanted) !== null) return;
        wallets.update(walletId, wanted, nowMs);
        break;
      }
      default: {
        const isFrozen = change.kind === 'freeze';
        if ((status === 'frozen') === isFrozen) return;
        wallets.freeze(walletId, isFrozen);
      }
    }
    this.#clients.count(`change: ${change.kind}`);
  }

  #noteWallets(): void {
    this.#oracle.wallets.noteChange(
      this.#course.passports.map(({ id }) => id),
      { revision: this.#controlPlane.service.entries.global.length, atMs: this.#loop.nowMs },
    );
  }

  #node = (index: number): SidecarNode => this.#nodes[index % this.#nodes.length] as SidecarNode;

  #cutPower(node: SidecarNode, forMs: number): void {
    const connection = this.#controlPlane.sidecars.get(node.sidecarId ?? '');
    // What was acknowledged may be on no disk yet.
    if (connection !== undefined) connection.ackedGlobal = 0;
    node.cutPower(forMs);
  }

  #unlink(node: SidecarNode): void {
    node.unlinkedAtMs.push(this.#loop.nowMs);
    node.hasFailedWrites = true;
    node.machine.disk.at(dataFolder).entries.delete('spool');
  }

  #troubleDisk(node: SidecarNode, { how, forMs }: Extract<Fault, { readonly kind: 'disk' }>): void {
    const { disk } = node.machine;
    const isLie = how === 'sync lies' && this.#course.fsyncMs > 0;
    // A disk that is slow syncs late.
    if (isLie || how === 'sync fails' || how === 'fails' || how === 'slow') node.hasUnsynced = true;
    if (how === 'fails') node.hasFailingReads = true;
    if (!isLie) node.hasFailedWrites = true;
    disk.trouble = {
      fails: how === 'fails' ? 0.2 : 0,
      failsWritten: how === 'writes fail',
      isFull: how === 'full',
      syncs: how === 'sync fails' ? 'fail' : isLie ? 'lie' : 'work',
      slowMs: how === 'slow' ? 4_000 : how === 'slower' ? 400 : 0,
    };
    this.#later(forMs, () => {
      disk.trouble = noTrouble;
    });
  }

  /** The limit goes up or down, and the policy has a new version. */
  #changeGate({ gate: place, factor }: Extract<Fault, { readonly kind: 'change gate' }>): void {
    const before = this.#course.gates[place];
    const gate = before === undefined ? undefined : this.#controlPlane.gates.get(before.body.gate_id);
    if (gate === undefined) return;
    // What was approved ahead ends with the policy.
    const { standing_approvals: _ended, version, policy_version, constraints, ...rest } = gate.body;
    const scaledConstraints = JSON.parse(
      JSON.stringify(constraints, (name, value: unknown) =>
        /^(?:requests_per_|daily_|monthly_)/.test(name) && typeof value === 'number'
          ? Math.ceil(value * factor)
          : value,
      ),
    );
    const limits = gate.limits.map((limit) => ({
      ...limit,
      limit: limit.kind.endsWith('_rate')
        ? Math.ceil(limit.limit * factor)
        : Math.ceil((limit.limit / 1_000_000) * factor) * 1_000_000,
    }));
    const versions = { version: version + 1, policy_version: policy_version + 1 };
    const body = { ...rest, ...versions, constraints: scaledConstraints };
    this.#putGate({ ...gate, body, limits });
  }

  /** People answer some of what waits. */
  #answerApprovals(): void {
    const { settlements, nowMs } = this.#controlPlane;
    for (const approval of settlements.approvals.values()) {
      if (approval.status !== 'pending' || nowMs >= approval.expiresAtMs) continue;
      if (!this.#people.happens(0.3)) continue;
      if (this.#people.happens(0.2)) settlements.end(approval, 'denied');
      else {
        approval.status = 'approved';
        approval.expiresAtMs = nowMs + approval.expiresInMs;
      }
    }
  }

  /** After the last fault: all comes to rest, and what is idle goes back. */
  async #rest(): Promise<void> {
    this.#heal();
    await this.#comeToRest();
    if (this.#violation !== null) return;
    await this.#expectDecisions();
    await this.#comeToRest();
    if (this.#violation !== null) return;
    // What has just come is applied by the next sweep.
    this.#controlPlane.sweep();
    const fault = this.#oracle.findFault();
    if (fault !== null) this.#wrong(fault);
    const broken = await this.#controlPlane.chains.findFault(this.#controlPlane.keysetOf(this.#ed25519));
    if (broken !== null) this.#wrong(`a chain does not verify: ${broken}`);
  }

  async #comeToRest(): Promise<void> {
    const loop = this.#loop;
    const endMs = loop.nowMs + restMsMax;
    for (;;) {
      await loop.runUntil(loop.nowMs + restStepMs, () => this.#violation !== null);
      if (this.#violation !== null) return;
      const unrest = this.#findUnrest();
      if (unrest === null) return;
      if (loop.nowMs >= endMs) {
        this.#wrong(`no rest: ${unrest}`);
        return;
      }
    }
  }

  /** Every sidecar decides again, with units and without, and settles. */
  async #expectDecisions(): Promise<void> {
    this.#clients.retire();
    const passport = this.#course.passports.findIndex(
      ({ standing, id }) => standing === 'active' && this.#oracle.wallets.frozenSince(id) === null,
    );
    const asked = (passport === -1 ? [] : this.#nodes).flatMap(({ accountId }, sidecar) =>
      (accountId === this.#course.accountId ? [0, 4] : [elsewhereFrom + 1, elsewhereFrom]).map(
        (gate, place) => {
          const request = probesFrom + 2 * sidecar + place;
          const step = { kind: 'ask', sidecar, gate, passport, amountUsd: 0.01, request } as const;
          this.#clients.ask({
            ...step,
            atMs: this.#loop.nowMs,
            isKeyed: place === 0,
            abortsAfterMs: null,
            permission: 'orders:create',
            isHeld: false,
          });
          return request;
        },
      ),
    );
    const probes = this.#oracle.requests.filter(({ number }) => asked.includes(number));
    const areAnswered = (): boolean => probes.every(({ attempts }) => attempts.every(({ isOver }) => isOver));
    await this.#loop.runUntil(this.#loop.nowMs + probeMs, () => this.#violation !== null || areAnswered());
    for (const { attempts } of probes) {
      const told = attempts[0]?.told ?? null;
      if (told?.kind === 'PERMIT') continue;
      const reason = told === null ? 'nothing' : saidBy(told);
      if (!reason.endsWith('_limit_exceeded')) this.#wrong(`a sidecar at rest answers ${reason}`);
    }
  }

  #heal(): void {
    this.#healedAtMs = this.#loop.nowMs;
    this.#network.weather = fair;
    this.#controlPlane.trouble = { fails: 0, release: 'this' };
    if (this.#bus.isDown) this.#bus.restart();
    this.#replicas.forEach(({ process }, index) => {
      if (!process.isAlive) this.#startReplica(index);
      else if (process.isPaused) this.#loop.resume(process);
    });
    for (const node of this.#nodes) {
      this.#network.cut(node.machine.name, 'none');
      node.machine.disk.trouble = noTrouble;
      node.heal();
    }
  }

  #findUnrest(): string | null {
    for (const node of this.#nodes) {
      const unrest = this.#unrestOf(node);
      if (unrest !== null) return `sidecar ${node.index}: ${unrest}`;
    }
    return this.#unreturned();
  }

  #unrestOf(node: SidecarNode): string | null {
    const { core, process } = node;
    if (core === null || process === null) return 'it does not run';
    const { spool, following, replica, leases } = core;
    const { entries } = this.#controlPlane.serviceOf(node.accountId);
    if (spool.state === 'failed') node.heal();
    if (!following.status.connected) return `not connected: ${following.status.lastProblem}`;
    if (following.mustNotServe !== null) return following.mustNotServe;
    // It takes the control plane for away until an answer comes, and refuses what needs units (contract §6).
    // The calls whose answers were lost have to end first, a lease call after a second.
    if (process.answeredAtMs < this.#healedAtMs) return 'it has had no answer since all was healed';
    if (
      replica.globalRevision !== entries.global.length ||
      replica.accountRevision !== entries.account.length
    )
      return 'its state is not the newest';
    if (spool.state !== 'open') return `its spool is ${spool.state}: ${spool.lastError}`;
    // An operation that began on a slow disk may end seconds after the disk has become fast.
    if (spool.isFull) return 'its spool takes nothing yet';
    if (spool.epochs.length !== 1) return `${spool.epochs.length} epochs in its spool`;
    if (core.shipper.lastError !== null) return `it cannot ship: ${core.shipper.lastError}`;
    const epoch = this.#controlPlane.epochs.get(`${node.sidecarId} ${spool.epoch}`);
    if ((epoch?.lastSeq ?? 0) < spool.lastSeq)
      return `${spool.lastSeq} records, ${epoch?.lastSeq ?? 0} shipped`;
    if (leases.counts.waiting > 0) return 'requests wait for units';
    const open = this.#oracle.requests.find(({ attempts }) =>
      attempts.some((each) => each.process === process && !each.isOver),
    );
    if (open !== undefined) return `request ${open.number} is not answered`;
    return null;
  }

  /** Units that nobody uses are free again, but for those of an epoch that may lack a record. */
  #unreturned(): string | null {
    const { ledger, nowMs, epochs } = this.#controlPlane;
    for (const lease of ledger.leases.values()) {
      if (lease.unused === 0 || lease.at.window.endsAtMs <= nowMs) continue;
      const holder = ledger.holders.get(lease.holder);
      const end = epochs.get(`${lease.sidecarId} ${holder?.epoch}`)?.end ?? null;
      if (end === 'kept' || this.#mayStayTaken(lease)) continue;
      return `${lease.unused} units of ${lease.at.counter} are with ${lease.holder} of ${lease.sidecarId}, whose epoch is ${end ?? 'live'}`;
    }
    return null;
  }

  /**
   * What a record took whose write failed stays taken: the record may turn up all the same. Its holder goes,
   * so that nothing waits for it.
   */
  #mayStayTaken({ sidecarId, holder }: Lease): boolean {
    const node = this.#nodes.find((each) => each.sidecarId === sidecarId);
    return node === undefined || (node.hasFailedWrites && !this.#controlPlane.ledger.isNewest(holder));
  }

  #note(line: string): void {
    const text = `${this.#loop.nowMs.toFixed(3)} ${line}`;
    this.#hash.update(`${text}\n`);
    this.#options.onLine?.(text);
  }

  #wrong(sentence: string): void {
    this.#violation ??= sentence;
    this.#options.onLine?.(`${this.#loop.nowMs.toFixed(3)} VIOLATION ${sentence}`);
  }
}

const saidBy = (told: Told): string =>
  'reason' in told ? told.reason : 'code' in told ? told.code : told.kind;

const outsideMachine = (): Machine => ({
  name: 'elsewhere',
  disk: new Disk(new Chance(0n, 'nothing')),
  wallSkewMs: 0,
  bootId: '',
  startedAtMs: 0,
});

/** What keeps a change from a sidecar. Whether it is over is not looked at. */
const isBetween = ({ kind }: Fault): boolean =>
  kind === 'cut' ||
  kind === 'weather' ||
  kind === 'disk' ||
  kind === 'crash replica' ||
  kind === 'pause replica' ||
  kind === 'bus down' ||
  kind === 'control plane fails';

const weathers = {
  lossy: { loses: 0.2, repeats: 0, delayMsMax: 20, dawdles: 0.05 },
  doubling: { loses: 0, repeats: 0.8, delayMsMax: 10, dawdles: 0.05 },
  repeating: { loses: 0.02, repeats: 0.3, delayMsMax: 10, dawdles: 0.1 },
  slow: { loses: 0, repeats: 0, delayMsMax: 400, dawdles: 0.1 },
} as const;
