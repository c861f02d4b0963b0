/** How long decisions of one sidecar took in a minute: from the whole body of a request to its decision. */
export interface DecisionTimes {
  readonly decisions: number;
  /** Half of them took at most so long, in milliseconds: a bound of the sidecar's histogram. Null: none. */
  readonly p50Ms: number | null;
  /** As `p50Ms`, of 99 in 100. */
  readonly p99Ms: number | null;
}

/** A header of the pulls of a sidecar, so that it says nothing new to a control plane of before. */
export const decisionTimesHeader = 'x-agent-trust-decision-times';

export const renderDecisionTimes = ({ decisions, p50Ms, p99Ms }: DecisionTimes): string =>
  `${decisions} ${p50Ms ?? '-'} ${p99Ms ?? '-'}`;

const pattern = /^(\d{1,12}) (-|\d{1,5}(?:\.\d{1,4})?) (-|\d{1,5}(?:\.\d{1,4})?)$/;

/** Null: the sidecar does not say. */
export function parseDecisionTimes(text: string | readonly string[] | undefined): DecisionTimes | null {
  const [, decisions, p50, p99] = typeof text === 'string' ? (pattern.exec(text) ?? []) : [];
  if (decisions === undefined || p50 === undefined || p99 === undefined) return null;
  const timeOf = (time: string) => (time === '-' ? null : Number(time));
  return { decisions: Number(decisions), p50Ms: timeOf(p50), p99Ms: timeOf(p99) };
}
