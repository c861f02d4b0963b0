/**
 * Room `sidecar/startup`: what decides on one event loop is wired here; `one-sidecar.ts` adds HTTP,
 * `from-settings.ts` reads settings, `identity.ts` has the id in its folder, `leftover-spools.ts` the
 * spools of threads that are gone, `young-generation.ts` how fast V8's young generation grows.
 */

import { join } from 'node:path';
import type { Bus } from '../../shared/bus/bus.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { RequestWriter } from '../../shared/crypto/request-writer.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { Teardown } from '../../shared/runtime/teardown.ts';
import type { Tracer } from '../../shared/telemetry/tracer.ts';
import type { DecisionTimes } from '../../shared/wire/sync/decision-times.ts';
import { type Keeping, nothingKept } from '../attest/kept-segments.ts';
import { Shipper } from '../attest/shipper.ts';
import { openSpool, type Spool } from '../attest/spool.ts';
import { Answers } from '../decide/answers.ts';
import { authenticator } from '../decide/callers.ts';
import { Receipts } from '../decide/receipts.ts';
import { Section } from '../decide/section.ts';
import { Intake } from '../intake/intake.ts';
import { KeptBodies } from '../intake/kept-bodies.ts';
import { Outcomes } from '../intake/outcomes.ts';
import { Turns } from '../intake/turns.ts';
import { decisionTimesOfMinute } from '../operations/decision-times.ts';
import { LeaseHolder } from '../quota/lease-holder.ts';
import { CatchUp } from '../replica/catch-up.ts';
import { ControlPlaneClient } from '../replica/control-plane-client.ts';
import type { ControlPlaneTime } from '../replica/control-plane-time.ts';
import { Following } from '../replica/follow.ts';
import { KnownHistory } from '../replica/known-history.ts';
import { Reach } from '../replica/reach.ts';
import { ReceiptKey } from '../replica/receipt-key.ts';
import { Replica } from '../replica/replica.ts';
import { Sightings } from '../replica/sightings.ts';
import { snapshotFile } from '../replica/snapshot-file.ts';
import { Decider } from '../settle/decider.ts';
import { ProofClaims } from '../settle/proof-claims.ts';
import { ProofMemory } from '../settle/proof-memory.ts';
import { Proofs } from '../settle/proofs.ts';
import { Settlements } from '../settle/settlements.ts';
import { type VerifyPool, verifyPool } from '../verify/pool.ts';
import { SignatureQueue } from '../verify/signature-queue.ts';
import { verifiedCache } from '../verify/verified-cache.ts';
import { PassportVerifier } from '../verify/verifier.ts';
import { sidecarIdOf } from './identity.ts';
import { startupLimits } from './limits.ts';

export interface CoreOptions {
  /** Its own, for the id, the last known state and the spool. */
  readonly folder: string;
  readonly controlPlane: { readonly origin: string; readonly apiKey: string };
  readonly fsyncMs: number;
  /** Of shipped records. Default: they are deleted. */
  readonly keeping?: Keeping;
  /** Null: long polls. The caller closes it. */
  readonly bus: Bus | null;
  readonly verifyThreads: number;
  /** Default: limits.drainMsMax. Tests whose control plane is away make it small. */
  readonly drainMsMax?: number;
  /** Default: limits.quotaWaitMsMax. Tests on busy machines make it longer. */
  readonly quotaWaitMs?: number;
  /** Default: intakeLimits.checksPerTurnMax. */
  readonly checksPerTurn?: number;
  readonly time: ControlPlaneTime;
  readonly random: Random;
  /** See FollowDeps. Default: none, because a full collection would stop a program that is not ours. */
  readonly freeMemory?: () => void;
  /** Default: none, no spans are exported. */
  readonly tracer?: Tracer | null;
  readonly logger: Logger;
}

/**
 * Decides and records, without a server: a sidecar is a core with a server, and a service can embed one
 * (`sidecar/embedded`).
 */
export interface Core {
  readonly intake: Intake;
  readonly answers: Answers;
  readonly decider: Decider;
  readonly outcomes: Outcomes;
  readonly verifier: PassportVerifier;
  readonly leases: LeaseHolder;
  readonly settlements: Settlements;
  readonly replica: Replica;
  readonly following: Following;
  readonly catchUp: CatchUp;
  readonly spool: Spool;
  readonly shipper: Shipper;
  readonly receipts: Receipts;
  readonly turns: Turns;
  readonly bodies: KeptBodies;
  readonly writer: RequestWriter;
  readonly ed25519: Ed25519;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /**
   * Runs the teardown that the core was started with: the records are then on disk, and shipped as far as
   * limits.drainMsMax allows; the next start with its folder ships the rest. Never rejects.
   */
  close(): Promise<void>;
}

/**
 * A core on this event loop. Resolves without a state to decide on, too: it answers 503 until there is one.
 * Everything started is in `started`, even if this rejects because the folder cannot be used. Later additions
 * to `started`, such as a server, are stopped before the core.
 */
export async function startCore(options: CoreOptions, started: Teardown): Promise<Core> {
  const { time, random, logger } = options;
  const { clock } = time;
  const ed25519 = chooseEd25519();
  // Both are set below: durations once there are answers, the deadline by close. Without a deadline, what is
  // left in the spool is left for the next start at once.
  let decisionTimes: () => DecisionTimes | null = () => null;
  let closedByMs = Number.NEGATIVE_INFINITY;
  const parts = { ...options, clock, ed25519 };
  const follower = await startFollower(parts, { decisionTimes: () => decisionTimes(), started });
  const { client, reach, catchUp, replica, following, sightings } = follower;
  const leftMs = () => Math.max(0, closedByMs - clock.monotonic());
  const { spool, shipper } = await startRecorder(parts, { ...follower, leftMs, started });

  const pool = verifyPool({ threads: options.verifyThreads, logger });
  const verifier = startVerifier(parts, follower, pool);
  started.add('verification', () => verifier.close());
  const leases = new LeaseHolder({
    ...{ client: leaseClient(follower), clock, random, logger },
    epoch: () => spool.epoch,
    failedTurns: () => spool.failedTurns,
    isConnected: () => client.connection !== null,
    wallets: replica,
  });
  reach.onBack(() => leases.endPause());
  started.add('leases', () => leases.stop());
  const signatures = new SignatureQueue({
    ...{ pool, ed25519, clock, logger, inlineWhenAlone: ed25519.name === 'sodium-native' },
  });
  started.add('signatures of proofs', async () => signatures.close());
  const claims = new ProofClaims({
    send: (asked) => client.claimProofs(asked),
    isAway: () => client.isAway,
    ...{ clock, random, logger },
  });
  started.add('claims of proofs', () => claims.stop());
  const settlements = new Settlements({
    send: async (batch, holder, trace) => {
      await sightings.flush();
      return client.settle(batch, holder, trace);
    },
    isAway: () => client.isAway,
    ...{ clock, random, logger, tracer: options.tracer ?? null },
  });
  started.add('settlements', () => settlements.stop());
  const receipts = new Receipts({
    ...{ key: follower.receiptKey, spool, logger },
    history: () => follower.known.feeds,
  });
  const deciding = startDeciding(
    {
      ...parts,
      state: replica,
      following,
      verifier,
      leases,
      settlements,
      spool,
      catchUp,
      signatures,
      claims,
      receipts,
    },
    started,
  );
  decisionTimes = decisionTimesOfMinute(deciding.answers.durations, time.machine);
  await pool.ready();

  return {
    ...deciding,
    ...{ verifier, leases, settlements, replica, following, catchUp, spool, shipper, receipts },
    turns: new Turns(options.checksPerTurn),
    bodies: new KeptBodies(),
    writer: new RequestWriter(),
    ...{ ed25519, clock, random, logger },
    close: () => {
      closedByMs = clock.monotonic() + (options.drainMsMax ?? limits.drainMsMax);
      return started.run();
    },
  };
}

type Parts = CoreOptions & Pick<Core, 'clock' | 'ed25519'>;

interface Follower extends Pick<Core, 'replica' | 'following'> {
  readonly client: ControlPlaneClient;
  readonly reach: Reach;
  readonly catchUp: CatchUp;
  readonly known: KnownHistory;
  readonly sightings: Sightings;
  readonly receiptKey: ReceiptKey;
}

/** Own passports, and those of other issuers, which the control plane is shown. */
const startVerifier = (
  { clock, ed25519, logger }: Parts,
  { replica, sightings }: Pick<Follower, 'replica' | 'sightings'>,
  pool: VerifyPool,
): PassportVerifier =>
  new PassportVerifier({
    keys: () => replica.keys,
    onUnknownKey: ({ issuerId }) => sightings.noteUnknownKey(issuerId),
    onVerified: (token, passport) => sightings.note(token, passport),
    cache: verifiedCache(startupLimits.verifiedPassportsMax),
    ...{ pool, clock, logger },
    // The other engines need 117 us and 1.1 ms: too long for everything else on this event loop.
    inlineWhenAlone: ed25519.name === 'sodium-native',
  });

/** The control plane knows a passport before units of it are leased. */
const leaseClient = ({ client, sightings }: Pick<Follower, 'client' | 'sightings'>) => ({
  get isAway() {
    return client.isAway;
  },
  lease: async (call: Parameters<ControlPlaneClient['lease']>[0]) => {
    await sightings.flush();
    return client.lease(call);
  },
});

/** The control plane knows a passport before a record names it. */
const shippingClient = ({ client, sightings }: Pick<Follower, 'client' | 'sightings'>) => ({
  shipAttestations: async (body: Uint8Array, onOver: () => void) => {
    try {
      await sightings.flush();
    } catch (error) {
      onOver();
      throw error;
    }
    return client.shipAttestations(body, onOver);
  },
});

/** The state of the control plane, and the way to it. */
async function startFollower(
  options: Parts,
  {
    decisionTimes,
    started,
  }: { readonly decisionTimes: () => DecisionTimes | null; readonly started: Teardown },
): Promise<Follower> {
  const { folder, time, clock, random, ed25519, bus, logger } = options;
  const sidecarId = await sidecarIdOf(folder, { clock, random });
  const file = snapshotFile(folder);
  const known = new KnownHistory(folder);
  await known.load();
  const replica = new Replica({ ed25519, clock, logger, pinnedKeys: await file.readTrustedKeys() });
  replica.recordForm = await file.readRecordForm();
  const reach = new Reach(time.machine);
  const client = new ControlPlaneClient({
    ...options.controlPlane,
    sidecarId,
    process: Buffer.from(random.bytes(16)).toString('hex'),
    clock: time.machine,
    logger,
    reach,
    decisionTimes,
    clockOffsetMs: () => time.offsetMs,
  });
  started.add('calls to the control plane', () => client.close());
  started.add('goodbye', async () => {
    // A sidecar whose goodbye fails shows as missing, which it is.
    if (!client.isAway && client.connection !== null) await client.sayGoodbye().catch(() => undefined);
  });
  const catchUp = new CatchUp({ clock: time.machine, asOfMs: () => replica.asOfMs, logger });
  started.add('watch on this loop', async () => catchUp.stop());
  const following = new Following({
    ...{ replica, client, bus, file, known, time, catchUp, random, logger },
    freeMemory: options.freeMemory ?? (() => undefined),
  });
  reach.onBack(() => following.endPause());
  started.add('following', () => following.stop());
  const receiptKey = await ReceiptKey.start({
    ...{ folder, sidecarId, ed25519, clock, random, logger },
    isCompromised: (kid) => replica.keys.find('attestation', kid)?.key.compromised === true,
    certify: (claim) => client.certifyKey(claim),
    isConnected: () => client.connection !== null,
  });
  started.add('certificate for receipts', () => receiptKey.stop());
  const sightings = new Sightings({ show: (shown) => client.showTokens(shown), clock, logger });
  return { client, reach, catchUp, replica, following, known, sightings, receiptKey };
}

/** Records on their way to the control plane. `leftMs`: for the teardown to ship them. */
async function startRecorder(
  { folder, fsyncMs, keeping = nothingKept, clock, random, logger }: Parts,
  {
    client,
    reach,
    known,
    following,
    sightings,
    leftMs,
    started,
  }: Pick<Follower, 'client' | 'reach' | 'known' | 'following' | 'sightings'> & {
    readonly leftMs: () => number;
    readonly started: Teardown;
  },
): Promise<Pick<Core, 'spool' | 'shipper'>> {
  const directory = join(folder, 'spool');
  const spool = await openSpool({ ...{ directory, fsyncMs, keeping, clock, random, logger } });
  const shipper = new Shipper({
    ...{ spool, client: shippingClient({ client, sightings }), random, logger },
    connection: () => client.connection,
    onReceipts: (receipts) => known.noteChains(receipts),
    beforeGoingBack: () => following.report(),
  });
  reach.onBack(() => shipper.endPause());
  following.onGeneration((generation) => {
    shipper.noteGeneration(generation);
    sightings.noteGeneration(generation);
  });
  started.add('spool', async () => {
    await spool.close();
    const isAllShipped = await shipper.drain(leftMs());
    if (isAllShipped) return;
    logger.error(
      { records: await shipper.countLeft(), bytes: spool.waitingBytes, folder: spool.directory },
      'records are left in the spool: no export contains them until a sidecar starts with this folder again',
    );
  });
  return { spool, shipper };
}

type DecidingDeps = Parts &
  Pick<Core, 'following' | 'verifier' | 'leases' | 'settlements' | 'spool'> &
  Pick<Follower, 'catchUp'> & {
    readonly state: Replica;
    readonly signatures: SignatureQueue;
    readonly claims: ProofClaims;
    readonly receipts: Receipts;
  };

function startDeciding(
  {
    state,
    following,
    verifier,
    leases,
    settlements,
    spool,
    catchUp,
    signatures,
    claims,
    receipts,
    ...parts
  }: DecidingDeps,
  started: Teardown,
): Pick<Core, 'answers' | 'decider' | 'intake' | 'outcomes'> {
  const { clock, random, logger, quotaWaitMs = limits.quotaWaitMsMax } = parts;
  const authenticate = authenticator(state);
  const mustNotServe = () => following.mustNotServe;
  const answers = new Answers({ clock, logger, receipts, tracer: parts.tracer ?? null });
  const section = new Section({
    ...{ state, authenticate, leases, spool, mustNotServe, catchUp, receipts, clock, random },
  });
  const proofs = new Proofs({
    ...{ signatures, claims, answers, clock, quotaWaitMs, memory: new ProofMemory() },
  });
  const decider = new Decider({
    ...{ section, proofs, answers, leases, settlements, catchUp, spool, clock, random, logger, quotaWaitMs },
  });
  const intake = new Intake({
    ...{ state, authenticate, mustNotServe, verifier, answers, decider, clock },
  });
  started.add('deadlines', async () => {
    answers.stop();
    decider.stop();
  });
  const outcomes = new Outcomes({ spool, state, answers, clock });
  return { answers, decider, intake, outcomes };
}
