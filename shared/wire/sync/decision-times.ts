/** Decision times of one sidecar in one minute, from the last byte of a request to its decision. */
export interface DecisionTimes {
  readonly decisions: number;
  /** The median in milliseconds, as a bound of the sidecar's histogram. Null: no decisions. */
  readonly p50Ms: number | null;
  /** The 99th percentile, likewise. */
  readonly p99Ms: number | null;
}

/** Header of a sidecar's pulls. A header, because older control planes ignore it. */
export const decisionTimesHeader = 'x-agent-trust-decision-times';

export const renderDecisionTimes = ({ decisions, p50Ms, p99Ms }: DecisionTimes): string =>
  `${decisions} ${p50Ms ?? '-'} ${p99Ms ?? '-'}`;

const pattern = /^(\d{1,12}) (-|\d{1,5}(?:\.\d{1,4})?) (-|\d{1,5}(?:\.\d{1,4})?)$/;

/** Null: not stated. */
export function parseDecisionTimes(text: string | readonly string[] | undefined): DecisionTimes | null {
  const [, decisions, p50, p99] = typeof text === 'string' ? (pattern.exec(text) ?? []) : [];
  if (decisions === undefined || p50 === undefined || p99 === undefined) return null;
  const timeOf = (time: string) => (time === '-' ? null : Number(time));
  return { decisions: Number(decisions), p50Ms: timeOf(p50), p99Ms: timeOf(p99) };
}
