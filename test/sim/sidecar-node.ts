import { InvariantError } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { idRandomBytes, makeId } from '../../shared/model/ids.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { teardown } from '../../shared/runtime/teardown.ts';
import { InProcessChecks } from '../../sidecar/intake/in-process/in-process-checks.ts';
import { ControlPlaneTime } from '../../sidecar/replica/control-plane-time.ts';
import { TrustedKeysError } from '../../sidecar/replica/snapshot-file.ts';
import { type Core, startCore } from '../../sidecar/startup/core.ts';
import type { SimulatedBus } from './bus.ts';
import { Chance } from './chance.ts';
import type { Course } from './course.ts';
import { Disk } from './disk.ts';
import { clockOf, type Machine, Process, theLoop } from './loop.ts';

export interface NodeDeps {
  readonly course: Course;
  readonly seed: bigint;
  readonly bus: SimulatedBus;
  readonly note: (line: string) => void;
  readonly wrong: (sentence: string) => void;
}

export const dataFolder = '/data';

/** A machine with a sidecar that its supervisor starts again whenever it ends. */
export class SidecarNode {
  readonly index: number;
  readonly machine: Machine;
  readonly accountId: AccountId;
  process: Process | null = null;
  core: Core | null = null;
  checks: InProcessChecks | null = null;
  starts = 0;
  /** What has ended promises of the disk and the kernel: see Oracle. */
  readonly lostPowerAtMs: number[] = [];
  readonly startedAtMs: number[] = [];
  readonly unlinkedAtMs: number[] = [];
  hasUnsynced = false;
  hasFailingReads = false;
  hasFailedWrites = false;
  readonly #deps: NodeDeps;
  readonly #supervisor: Process;

  constructor(index: number, deps: NodeDeps) {
    const chance = new Chance(deps.seed, `machine ${index}`);
    this.index = index;
    const { accountId, sidecars, elsewhere } = deps.course;
    this.accountId = index < sidecars ? accountId : (elsewhere?.accountId ?? accountId);
    this.#deps = deps;
    this.machine = {
      name: `machine-${index}`,
      disk: new Disk(new Chance(deps.seed, `disk ${index}`)),
      wallSkewMs: chance.happens(0.7) ? 0 : Math.round(chance.between(-3_000, 3_000)),
      bootId: `boot-${index}-0`,
      startedAtMs: -Math.round(chance.between(0, 1e7)),
    };
    this.machine.disk.makeFolders(dataFolder);
    this.machine.disk.root.makeDurable();
    this.#supervisor = new Process(this.machine, `supervisor ${index}`);
  }

  /** Null before the first start has made one. */
  get sidecarId(): string | null {
    return this.machine.disk.find(`${dataFolder}/sidecar-id`)?.text().trimEnd() ?? null;
  }

  /** Of the control plane's books: the epoch that is written now. */
  get epoch(): string | null {
    return this.core === null ? null : `${this.sidecarId} ${this.core.spool.epoch}`;
  }

  start(): void {
    if (this.process !== null) return;
    const process = new Process(this.machine, `sidecar ${this.index}.${++this.starts}`);
    this.process = process;
    process.runsSinceMs = theLoop().nowMs;
    this.startedAtMs.push(theLoop().nowMs);
    const logger = this.#loggerOf(process);
    const started = teardown(logger);
    const { course, seed, bus, wrong } = this.#deps;
    // In an event of its own: what it awaits goes on as the process whose event it is.
    theLoop().schedule(process, 0, 'io', () => {
      startCore(
        {
          folder: dataFolder,
          controlPlane: { origin: 'http://control-plane', apiKey: this.accountId },
          fsyncMs: course.fsyncMs,
          keeping: { ms: course.keptMs, bytesMax: 1e9 },
          bus: course.usesBus ? bus.clientOf(process) : null,
          verifyThreads: 1,
          drainMsMax: 500,
          time: new ControlPlaneTime(clockOf(this.machine)),
          random: randomOf(new Chance(seed, process.name)),
          logger,
        },
        started,
      ).then(
        (core) => {
          if (this.process !== process) return;
          const checks = new InProcessChecks(core);
          // As in a program: what is in flight is answered before the deadlines end.
          started.add('checks', () => checks.stop());
          this.core = core;
          this.checks = checks;
        },
        (error: unknown) => {
          if (error instanceof InvariantError) wrong(`the start breaks: ${error.message}`);
          this.#deps.note(`${process.name} cannot start: ${String(error)}`);
          // A disk that lied about an fsync has lost its content; a person does what the error says.
          if (error instanceof TrustedKeysError && this.hasUnsynced)
            this.machine.disk.at(dataFolder).entries.delete('sync-keys.json');
          if (this.process === process) this.#end(process, 1_000);
        },
      );
    });
  }

  /** kill -9; the supervisor starts it again. */
  crash(forMs: number): void {
    if (this.process !== null) this.#end(this.process, forMs);
  }

  cutPower(forMs: number): void {
    this.lostPowerAtMs.push(theLoop().nowMs);
    this.machine.bootId = `boot-${this.index}-${theLoop().events}`;
    const { process } = this;
    if (process !== null) this.#end(process, forMs);
    this.machine.disk.cutPower();
  }

  /** SIGTERM. */
  stop(forMs: number): void {
    const { process, core } = this;
    if (process === null || core === null || process.isPaused) {
      this.crash(forMs);
      return;
    }
    this.core = null;
    this.checks = null;
    theLoop().schedule(process, 0, 'io', () => {
      void core.close().then(() => {
        if (this.process === process) this.#end(process, forMs);
      });
    });
  }

  pause(forMs: number): void {
    const { process } = this;
    if (process === null || process.isPaused) return;
    theLoop().pause(process);
    theLoop().schedule(this.#supervisor, forMs, 'io', () => this.#resume(process));
  }

  #resume(process: Process): void {
    if (process.isAlive && process.isPaused) theLoop().resume(process);
  }

  /** What lasted too long is over. */
  heal(): void {
    const { process, core } = this;
    if (process !== null) this.#resume(process);
    if (process === null) this.start();
    else if (core?.spool.state === 'failed') this.crash(1);
  }

  #end(process: Process, forMs: number): void {
    process.isAlive = false;
    process.endedAtMs = theLoop().nowMs;
    process.files.clear();
    this.process = null;
    this.core = null;
    this.checks = null;
    theLoop().schedule(this.#supervisor, forMs, 'io', () => this.start());
  }

  #loggerOf(process: Process): Logger {
    const { note, wrong } = this.#deps;
    const log = (level: string) => (fields: object, message: string) => {
      note(`${process.name} ${level} ${message}`);
      const error = 'err' in fields ? fields.err : null;
      if (error instanceof InvariantError || error instanceof TypeError || error instanceof RangeError)
        wrong(`${process.name} logs: ${message}: ${error.stack}`);
    };
    const logger: Logger = {
      debug: () => undefined,
      info: log('info'),
      warn: log('warn'),
      error: log('error'),
      child: () => logger,
    };
    return logger;
  }
}

const randomOf = (chance: Chance): Random => ({
  bytes: (count) => chance.bytes(count),
  newId: (prefix, nowMs) => makeId(prefix, nowMs, chance.bytes(idRandomBytes)),
});
