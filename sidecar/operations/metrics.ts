import { Gauge, Registry } from 'prom-client';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { addBuildInfo, addProcessMetrics } from '../../shared/runtime/process-metrics.ts';
import type { Answers } from '../decide/answers.ts';
import type { Receipts } from '../decide/receipts.ts';
import type { ServerPort } from '../http/server.ts';
import type { LeaseHolder } from '../quota/lease-holder.ts';
import type { FollowStatus } from '../replica/follow.ts';
import type { Replica } from '../replica/replica.ts';
import type { Decider } from '../settle/decider.ts';
import type { Settlements } from '../settle/settlements.ts';
import type { PassportVerifier } from '../verify/verifier.ts';
import { blockedForMs, trustLevels } from './blocked-levels.ts';
import { Figures } from './figures.ts';
import { type MeasuredSpool, spoolMetrics } from './spool-metrics.ts';

/** The sources of `/metrics`. */
export interface Measured extends MeasuredSpool {
  readonly answers: Answers;
  readonly decider: Pick<Decider, 'voided'>;
  readonly receipts: Pick<Receipts, 'counts' | 'certifiedUntil'>;
  readonly clock: { now(): UnixMillis };
  readonly leases: Pick<LeaseHolder, 'counts'>;
  readonly settlements: Pick<Settlements, 'counts' | 'open'>;
  readonly verifier: PassportVerifier;
  readonly replica: Pick<Replica, 'stateAgeMs' | 'standingCount' | 'refusedCount' | 'badRows'>;
  readonly following: { readonly status: Pick<FollowStatus, 'connected' | 'clockOffsetMs' | 'isRegressed'> };
  readonly ed25519: Pick<Ed25519, 'name'>;
  /** Null: embedded, without a server. */
  readonly http: MeasuredHttp | null;
}

interface MeasuredHttp {
  readonly answers: AnswerCounts;
  readonly streams: { readonly open: number; readonly frames: number };
  readonly server: Pick<ServerPort, 'name' | 'fallbackReason'>;
}

/** Answers of the HTTP server, by status. */
export type AnswerCounts = Map<number, number>;

/** Called by a server for each answer. */
export const countAnswer =
  (answers: AnswerCounts) =>
  (status: number): void => {
    answers.set(status, (answers.get(status) ?? 0) + 1);
  };

/**
 * The metrics of one sidecar for Prometheus. The parts count with plain numbers that are read at a scrape, so
 * a request pays for no metric. No label holds the id of an agent, passport or gate: series per id have no
 * bound.
 */
export function sidecarMetrics(measured: Measured, measuresProcess: boolean): Registry {
  const registry = new Registry();
  if (measuresProcess) addProcessMetrics(registry);
  const figures = new Figures(registry);
  decisionMetrics(figures, measured);
  receiptMetrics(figures, measured);
  settlementMetrics(figures, measured);
  leaseMetrics(figures, measured);
  verifierMetrics(figures, measured);
  spoolMetrics(figures, measured);
  replicaMetrics(figures, measured);
  serviceMetrics(figures, measured);
  if (measured.http !== null) httpMetrics(figures, measured.http);
  return registry;
}

/** Decisions, and requests without one. */
function decisionMetrics(figures: Figures, { answers }: Measured): void {
  figures.counts(
    'decisions_total',
    'Decisions answered, by outcome and reason. A PERMIT has the reason none.',
    {
      labelNames: ['outcome', 'reason'],
      read: function* () {
        for (const { outcome, reason, count } of answers.decisions)
          yield [{ outcome, reason: reason ?? 'none' }, count];
      },
    },
  );
  figures.counter(
    'shed_total',
    'Answers `overloaded`: requests and handshakes, each check of a batch, each frame of a stream.',
    () => answers.shed,
  );
  figures.counter(
    'internal_errors_total',
    'Requests that failed with an internal error.',
    () => answers.internalErrors,
  );
  figures.gauge(
    'open_requests',
    'Requests in progress: the body was received, the answer was not sent yet.',
    () => answers.openRequests,
  );
}

/** Signed statements of answers. */
function receiptMetrics(figures: Figures, { receipts, clock }: Measured): void {
  figures.counts(
    'receipts_total',
    'Answers that were to have a receipt: issued; uncertified: refused, because the control plane has not certified the key of this sidecar; lost: the disk failed after the decision.',
    {
      labelNames: ['outcome'],
      read: function* () {
        for (const [outcome, count] of Object.entries(receipts.counts)) yield [{ outcome }, count];
      },
    },
  );
  figures.gauge(
    'receipts_certified_seconds',
    'How long receipts can still be issued without the control plane. 0: requests that ask for one are refused.',
    () => {
      const nowMs = clock.now();
      return ((receipts.certifiedUntil(nowMs) ?? nowMs) - nowMs) / 1_000;
    },
    'min',
  );
}

/** Settlements, look-ups and voids. */
function settlementMetrics(figures: Figures, { settlements, decider }: Measured): void {
  figures.counts(
    'settlements_total',
    'Settlements and look-ups for requests with an idempotency key or an approval, by outcome. unknown: no answer came in time; the settlement is voided. shed: refused because too many were waiting, never sent.',
    {
      labelNames: ['kind', 'outcome'],
      read: function* () {
        for (const { kind, outcome, count } of settlements.counts) yield [{ kind, outcome }, count];
      },
    },
  );
  figures.gauge(
    'settlements_open',
    'Settlements and look-ups that wait for the control plane.',
    () => settlements.open,
  );
  figures.counter(
    'settlements_voided_total',
    'Voids of settlements that did not come true, or of which nothing was known in time, and of readings that were not needed.',
    () => decider.voided,
  );
}

/** Leased units. */
function leaseMetrics(figures: Figures, { leases }: Measured): void {
  figures.counter('lease_calls_total', 'Lease calls that were answered.', () => leases.counts.calls);
  figures.counter(
    'lease_failures_total',
    'Lease calls that were not answered and are retried.',
    () => leases.counts.failures,
  );
  figures.counter('lease_asks_total', 'Requests that had to wait for a lease.', () => leases.counts.asks);
  figures.counter(
    'lease_refused_total',
    'Of those, requests for which a window had too few units left.',
    () => leases.counts.refused,
  );
  figures.counter(
    'lease_unavailable_total',
    'Of those, requests that got no answer in time.',
    () => leases.counts.unavailable,
  );
  figures.counter(
    'lease_takes_total',
    'Charges taken from leased units, in memory.',
    () => leases.counts.takes,
  );
  figures.gauge('lease_waiting', 'Requests that wait for a lease now.', () => leases.counts.waiting);
  figures.gauge('lease_windows', 'Quota windows in memory.', () => leases.counts.windows);
}

/** Signatures of passports. */
function verifierMetrics(figures: Figures, { verifier }: Measured): void {
  figures.counter('verify_cache_hits_total', 'Passports that were known.', () => verifier.counts.hits);
  figures.counter(
    'verify_cache_misses_total',
    'Passports whose signature had to be checked.',
    () => verifier.counts.misses,
  );
  figures.counter(
    'verify_refused_total',
    'Tokens refused by their shape or key, before any cryptography.',
    () => verifier.counts.refusedUnverified,
  );
  figures.counter(
    'verify_shed_total',
    'Tokens not verified because too many waited, or for too long.',
    () => verifier.counts.shed,
  );
  figures.counter(
    'verify_failed_total',
    'Tokens not verified because a thread failed.',
    () => verifier.counts.failed,
  );
  figures.gauge('verify_waiting', 'Requests that wait for a signature.', () => verifier.counts.waiting);
}

/** The state from the control plane. */
function replicaMetrics(figures: Figures, { replica }: Measured): void {
  figures.gauge(
    'state_age_seconds',
    'Time since the state was last known to be current; +Inf until then.',
    () => replica.stateAgeMs / 1_000,
    'max',
  );
  new Gauge({
    name: 'agent_trust_sidecar_trust_level_blocked_seconds',
    help: 'For how long gates of this trust level have blocked everything with state_stale; 0 while they decide, +Inf since the start.',
    labelNames: ['trust_level'],
    registers: [figures.registry],
    aggregator: 'max',
    collect() {
      for (const level of trustLevels)
        this.set({ trust_level: level }, blockedForMs(level, replica.stateAgeMs) / 1_000);
    },
  });
  figures.gauge(
    'standings',
    'Revoked and suspended passports in memory.',
    () => replica.standingCount,
    'max',
  );
  figures.gauge(
    'bad_rows',
    'Gates and keys of the control plane that cannot be used here, and are left out; /readyz names them.',
    () => replica.badRows.length,
    'max',
  );
  figures.counter(
    'sync_refused_total',
    'Snapshots, changes and heartbeats that were refused.',
    () => replica.refusedCount,
  );
}

/** Connection to the control plane, and platform. */
function serviceMetrics(figures: Figures, { answers, following, http, ed25519 }: Measured): void {
  answers.durations.register(figures.registry, {
    name: 'agent_trust_sidecar_decision_duration_seconds',
    help: 'Time from the whole body of a request to its decision.',
  });
  figures.gauge(
    'connected',
    '1 while the control plane answers; of several threads, 1 while it answers all.',
    () => Number(following.status.connected),
    'min',
  );
  figures.gauge(
    'history_regressed',
    '1 while the control plane lacks what was in force here: its database was restored, or a replica took over that lagged.',
    () => Number(following.status.isRegressed),
    'max',
  );
  figures.gauge(
    'clock_offset_seconds',
    'Offset of the clock of this machine from that of the control plane; NaN until it is known.',
    () => (following.status.clockOffsetMs ?? Number.NaN) / 1_000,
    'max',
  );
  addBuildInfo(figures.registry, 'agent_trust_sidecar_build_info', {
    version: packageVersion,
    server: http?.server.name ?? 'embedded',
    ed25519: ed25519.name,
  });
}

function httpMetrics(figures: Figures, { answers, streams, server }: MeasuredHttp): void {
  figures.gauge('streams_open', 'WebSockets of /v1/stream that are open.', () => streams.open);
  figures.counter(
    'stream_frames_total',
    'Frames that came over /v1/stream, whatever they were answered.',
    () => streams.frames,
  );
  figures.counts(
    'http_answers_total',
    'Answers by HTTP status, of every address. What uWebSockets.js answers by itself is not among them.',
    {
      labelNames: ['status'],
      read: function* () {
        for (const [status, count] of answers) yield [{ status: String(status) }, count];
      },
    },
  );
  figures.gauge(
    'http_fallback',
    '1: uWebSockets.js does not load here, and node:http answers at about half the speed.',
    () => Number(server.fallbackReason !== null),
    'max',
  );
}
