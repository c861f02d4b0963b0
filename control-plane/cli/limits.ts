import { limits, mustHold } from '../../shared/model/limits.ts';

/** Bounds of this room alone, each with its reason. */
export const cliLimits = {
  /** One line of an export: a record with 32 pointers of the maximum length, every character escaped. */
  exportLineBytesMax: 4 * 1024 * 1024,
} as const;

mustHold(
  limits.auditStateBytesMax * 2 * 2 < cliLimits.exportLineBytesMax,
  'an audit entry fits in a line of an export, its states written out in full',
);
