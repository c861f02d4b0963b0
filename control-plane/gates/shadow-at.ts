import type { Gate, GateShadow } from '../../shared/model/gate.ts';
import type { UnixMillis } from '../../shared/model/time.ts';

/** Null: the gate has none in force then. */
export const shadowAt = ({ shadow }: Pick<Gate, 'shadow'>, nowMs: UnixMillis): GateShadow | null =>
  shadow !== null && nowMs < shadow.expiresAtMs ? shadow : null;
