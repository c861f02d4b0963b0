import { Type } from 'typebox';
import { nullable, Timestamp } from './fields.ts';

/** `GET /sidecars` */
export const SidecarAnswer = Type.Object({
  sidecar_id: Type.String(),
  version: nullable(Type.String()),
  is_connected: Type.Boolean(),
  connected_at: Timestamp,
  last_seen_at: Timestamp,
  lag_ms: Type.Integer(),
  changes_behind: Type.Integer(),
  clock_offset_ms: Type.Integer(),
});

export const SidecarListAnswer = Type.Object({ items: Type.Array(SidecarAnswer) });
