/**
 * Room `sidecar/operations`: `/readyz` (here), `metrics.ts`, and the document of the HTTP surface
 * (`read-openapi.ts`).
 */

import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Shipper } from '../attest/shipper.ts';
import type { Spool } from '../attest/spool.ts';
import type { Receipts } from '../decide/receipts.ts';
import type { ServerPort } from '../http/server.ts';
import type { Following } from '../replica/follow.ts';
import { replicaLimits } from '../replica/limits.ts';
import type { Replica } from '../replica/replica.ts';
import { blockedForMs, trustLevels } from './blocked-levels.ts';
import { operationsLimits } from './limits.ts';

/** The parts that decide readiness, and others for the operator. */
export interface Observed extends ObservedCore {
  readonly server: Pick<ServerPort, 'name' | 'fallbackReason'>;
}

/** The same without the server. */
interface ObservedCore {
  readonly replica: Pick<
    Replica,
    'accountId' | 'stateAgeMs' | 'accountRevision' | 'globalRevision' | 'badRows'
  >;
  readonly following: Pick<Following, 'status' | 'mustNotServe'>;
  readonly spool: Pick<Spool, 'state' | 'isFull' | 'isSteady' | 'waitingBytes' | 'lastError'>;
  readonly shipper: Pick<Shipper, 'state' | 'lastError' | 'voidedRecords' | 'damagedPlaces' | 'tornEnds'>;
  readonly receipts: Pick<Receipts, 'certifiedUntil'>;
  readonly ed25519: Pick<Ed25519, 'name'>;
}

/** The time of the probe, and of the sidecar's start. */
interface Moment {
  readonly isDraining: boolean;
  readonly nowMs: UnixMillis;
  readonly startedAtMs: UnixMillis;
}

/** What `/readyz` answers. */
export const readinessOf = ({ server, ...core }: Observed, moment: Moment) =>
  ({
    ...coreReadinessOf(core, moment),
    server: { name: server.name, fallback_reason: server.fallbackReason },
  }) as const;

/**
 * Readiness of a core, with details for the operator. A sidecar stays ready while the control plane is away:
 * deciding without it is its purpose. A clock of this machine that is more than a minute off makes it
 * unready: nothing uses that clock now, but a restart without the control plane would.
 */
export function coreReadinessOf(observed: ObservedCore, moment: Moment) {
  const { isDraining, nowMs } = moment;
  const certifiedUntilMs = observed.receipts.certifiedUntil(nowMs);
  const { replica, spool, shipper, ed25519 } = observed;
  const { mustNotServe } = observed.following;
  const { connected, superseded, isRegressed, clockOffsetMs, lastProblem } = observed.following.status;
  const offsetMs = Math.abs(clockOffsetMs ?? 0);
  const isClockUsable = offsetMs <= operationsLimits.clockOffsetReadyMsMax;
  const mayServe = !isDraining && mustNotServe === null && replica.accountId !== null && spool.isSteady;
  const isReady = mayServe && isClockUsable;
  return {
    status: isReady ? 'ready' : 'not_ready',
    draining: isDraining,
    state: {
      loaded: replica.accountId !== null,
      /** Null: unknown, as for a state from disk. */
      age_ms: Number.isFinite(replica.stateAgeMs) ? Math.round(replica.stateAgeMs) : null,
      account_revision: replica.accountRevision,
      global_revision: replica.globalRevision,
      /** Rows of the control plane that this sidecar cannot use. They do not affect readiness. */
      bad_rows: replica.badRows.slice(0, replicaLimits.badRowsShownMax),
      bad_row_count: replica.badRows.length,
    },
    blocked_trust_levels: blockedLevelsOf(replica.stateAgeMs, moment),
    control_plane: {
      connected,
      superseded,
      must_not_serve: mustNotServe,
      last_problem: lastProblem,
      clock_offset_ms: clockOffsetMs,
      clock_is_off: offsetMs > limits.clockOffsetMsMax,
    },
    /** `regressed`: the stricter decides of what was in force here and what the control plane says now. */
    history: { state: isRegressed ? 'regressed' : 'whole' },
    spool: {
      state: spool.state,
      full: spool.isFull,
      /** False: full, now or a few seconds ago. */
      steady: spool.isSteady,
      bytes: spool.waitingBytes,
      shipping: shipper.state,
      /** The disk first: no decision without it. */
      last_error: spool.lastError ?? shipper.lastError,
      voided_records: shipper.voidedRecords,
      damaged_places: shipper.damagedPlaces,
      torn_ends: shipper.tornEnds,
    },
    /** Requests that ask for none do not need them: they do not affect readiness. */
    receipts: {
      certified_until: certifiedUntilMs === null ? null : new Date(certifiedUntilMs).toISOString(),
    },
    ed25519: ed25519.name,
  } as const;
}

/**
 * The levels whose gates block everything with `state_stale`. A state that was never current blocks from the
 * start.
 */
const blockedLevelsOf = (stateAgeMs: number, { nowMs, startedAtMs }: Moment) =>
  trustLevels.flatMap((level) => {
    const blockedMs = blockedForMs(level, stateAgeMs);
    if (blockedMs === 0) return [];
    const sinceMs = Number.isFinite(blockedMs) ? nowMs - Math.round(blockedMs) : startedAtMs;
    return [{ trust_level: level, reason: 'state_stale', since: new Date(sinceMs).toISOString() }] as const;
  });
