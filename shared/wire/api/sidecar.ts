import { Type } from 'typebox';
import { nullable, Timestamp } from './fields.ts';
import { PageAnswer } from './paging.ts';

/** Decision times of the last minute that the sidecar reported. */
export const DecisionTimesAnswer = Type.Object({
  decisions: Type.Integer(),
  p50_ms: nullable(Type.Number()),
  p99_ms: nullable(Type.Number()),
});

/** `GET /sidecars` */
export const SidecarAnswer = Type.Object({
  sidecar_id: Type.String(),
  version: nullable(Type.String()),
  is_connected: Type.Boolean(),
  connected_at: Timestamp,
  last_seen_at: Timestamp,
  stopped_at: nullable(Timestamp),
  lag_ms: Type.Integer(),
  changes_behind: Type.Integer(),
  clock_offset_ms: Type.Integer(),
  decision_times: nullable(DecisionTimesAnswer),
});

export const SidecarListAnswer = PageAnswer(SidecarAnswer);
