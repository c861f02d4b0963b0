import { proofHashesMax } from '../../shared/log/merkle.ts';
import { noteBytesMax } from '../../shared/log/note.ts';
import { policyBounds } from '../../shared/log/witness-policy.ts';
import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const witnessLimits = {
  /** A checkpoint with its proof, of 45 characters for each hash. */
  bodyBytesMax: noteBytesMax + (proofHashesMax + 2) * 64,
  /** One checkpoint for each log of a policy. */
  stateBytesMax: policyBounds.keysMax * noteBytesMax,
  /** Checkpoints wait for the disk one after the other: at 10 ms each the last is answered in a second. */
  waitingMax: 100,
  /** Logs call, and a few monitors. */
  connectionsMax: 512,
  requestReadMsMax: 10 * secondMs,
} as const;
