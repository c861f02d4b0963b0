import { dayMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const walletsRoomLimits = {
  /** In the answer about one wallet; a page of the list has the others. */
  childrenShownMax: 200,
  /** A statement reads every record of its time: a month and a day of slack. */
  statementMsMax: 32 * dayMs,
} as const;
