import { setTimeout as pause } from 'node:timers/promises';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { Chance } from '../support/base/chance.ts';
import { call } from '../support/base/http-client.ts';
import { type HttpLink, httpLink } from '../support/peers/http-link.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import type { Program, Programs } from '../support/programs/programs.ts';

export type Version = 'old' | 'new';
export type Kind = 'control plane' | 'sidecar';

/** A program that is upgraded and rolled back in its place: on its port, in its folder. */
export interface Member {
  readonly name: string;
  readonly kind: Kind;
  readonly running: Running;
  version: Version;
  /** As a load balancer sees it, which asks `/readyz`. */
  isIn: boolean;
}

/** Control planes and sidecars of two versions on one database, behind a load balancer each. */
export interface Fleet {
  readonly installation: Installation;
  readonly members: readonly Member[];
  /** Origins of those that the balancer sends to. */
  in(kind: Kind): readonly string[];
  /** Stops it as an orchestrator does, starts the other version in its place, and waits until it is in. */
  replace(member: Member, version: Version, signal?: NodeJS.Signals): Promise<void>;
  /** What all programs wrote, those that have ended too. */
  output(): readonly { readonly name: string; readonly version: Version; readonly text: string }[];
  close(): Promise<void>;
}

export interface FleetOptions {
  readonly programs: Readonly<Record<Version, Programs>>;
  readonly databaseUrl: string;
  readonly redisUrl?: string;
  readonly chance: Chance;
}

const controlPlaneCount = 2;
const sidecarCount = 3;
/** So often the balancer looks; a program that drains is out before it closes its port. */
const lookMs = 100;
const drainMs = 1_500;

export async function startFleet({ programs, chance, ...options }: FleetOptions): Promise<Fleet> {
  const members: Member[] = [];
  const links: HttpLink[] = [];
  const written: { name: string; version: Version; program: Program }[] = [];
  /** Of the program that is launched next. */
  let next: { name: string; version: Version } = { name: '', version: 'old' };
  const world = await installation(
    {
      start: (args, env) => {
        const isMember = args[0] === 'control-plane' || args[0] === 'sidecar';
        const { name, version } = isMember ? next : { name: args.join(' '), version: 'new' as const };
        const program = programs[version].start(args, env);
        written.push({ name, version, program });
        return program;
      },
    },
    { ...options, env: { DRAIN_GRACE_MS: String(drainMs) } },
  );
  const origins = (kind: Kind) =>
    members.filter((each) => each.kind === kind && each.isIn).map(({ running }) => running.origin);
  const balancer = startBalancer(members);

  const add = async (kind: Kind, start: () => Promise<Running>) => {
    const name = `${kind} ${members.filter((each) => each.kind === kind).length + 1}`;
    next = { name, version: 'old' };
    members.push({ name, kind, running: await start(), version: 'old', isIn: true });
  };
  while (members.length < controlPlaneCount) await add('control plane', () => world.startControlPlane());
  while (members.length < controlPlaneCount + sidecarCount) {
    const link = await httpLink(
      () => chance.pick(origins('control plane')),
      (arrived, deliver) => deliver(arrived),
    );
    links.push(link);
    await add('sidecar', () => world.startSidecar({ CONTROL_PLANE_URL: link.origin }));
  }

  return {
    installation: world,
    members,
    in: origins,
    replace: async (member, version, signal = 'SIGTERM') => {
      const stopped = member.running.stop(signal);
      if (signal === 'SIGKILL') member.isIn = false;
      await stopped;
      member.version = version;
      next = { name: member.name, version };
      await member.running.start();
      while (!member.isIn) await pause(lookMs);
    },
    output: () => written.map(({ program, ...each }) => ({ ...each, text: program.output() })),
    close: async () => {
      await balancer.stop();
      await world.close();
      await Promise.all(links.map((link) => link.close()));
    },
  };
}

/** In a row, as balancers have it: on a busy machine a database may be slow to say that it is there. */
const failuresMax = 3;

/**
 * A program that drains, is gone or is not ready for some looks gets nothing any more, and one that is ready
 * again does.
 */
function startBalancer(members: readonly Member[]): Repetition {
  const failures = new Map<Member, number>();
  const look = async (member: Member): Promise<void> => {
    const answer = await call(`${member.running.origin}/readyz`).catch(() => null);
    const isReady = answer?.status === 200;
    const failed = isReady ? 0 : (failures.get(member) ?? 0) + 1;
    failures.set(member, failed);
    const isGone = answer === null || answer.body.draining === true;
    member.isIn = isReady || (member.isIn && !isGone && failed < failuresMax);
  };
  return repeat(async () => {
    await Promise.all(members.map(look));
    return lookMs;
  });
}
