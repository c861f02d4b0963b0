import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { pollMs } from '../api/live.ts';
import { type LimitUsage, statistics } from '../api/statistics.ts';
import { count, usd } from './format.ts';
import { Ago } from './time.tsx';

/** What the limits at a gate have left; with a passport, also what is counted for that passport. */
export const useUsage = (gateId: string, passportId?: string, isAllowed = true) =>
  useQuery({
    queryKey: ['usage', gateId, passportId],
    queryFn: () => statistics.usage(gateId, passportId),
    enabled: isAllowed && gateId !== '',
    refetchInterval: pollMs(),
  });

const amountOf = ({ unit }: LimitUsage, amount: number): string =>
  unit === 'usd' ? usd(amount) : count(amount);

/** As `Requests a day for each passport`. */
export const nameOf = ({ of, per, unit, window }: LimitUsage): string => {
  const whose = of === 'passport' ? ' of the passport' : per === 'gate' ? '' : ` for each ${per}`;
  return `${unit === 'usd' ? 'USD' : 'Requests'} a ${window}${whose}`;
};

const keyOf = ({ of, per, unit, window }: LimitUsage): string => `${of} ${per} ${unit} ${window}`;

/** From this part on a limit is nearly used up. */
const nearly = 0.8;
const toneOf = (part: number): string => (part >= 1 ? 'bad' : part >= nearly ? 'warn' : '');

/** Limits as gauges, with their numbers in words. */
export function Limits({ limits }: { readonly limits: readonly LimitUsage[] }): ReactNode {
  return (
    <ul className="stack">
      {limits.map((limit) => (
        <li key={keyOf(limit)} className="stack tight">
          <div className="row between">
            <span>{nameOf(limit)}</span>
            <strong className="numbers">
              {limit.remaining === null
                ? amountOf(limit, limit.limit)
                : `${amountOf(limit, limit.remaining)} left of ${amountOf(limit, limit.limit)}`}
            </strong>
          </div>
          <Gauge limit={limit} />
        </li>
      ))}
    </ul>
  );
}

/** From 0 to 1, what sidecars have been lent included; null: it is counted for each passport by itself. */
export const usedPart = ({ limit, used, leased }: LimitUsage): number | null =>
  used === null || leased === null ? null : limit === 0 ? 1 : Math.min((used + leased) / limit, 1);

function Gauge({ limit }: { readonly limit: LimitUsage }): ReactNode {
  const { used, leased } = limit;
  const part = usedPart(limit);
  if (part === null || used === null || leased === null) {
    return <span className="soft small">Counted for each passport by itself.</span>;
  }
  return (
    <>
      <div className={`progress ${toneOf(part)}`} aria-hidden="true">
        <div style={{ width: `${part * 100}%` }} />
      </div>
      <span className="soft small">
        {amountOf(limit, used)} used
        {leased > 0 ? `, ${amountOf(limit, leased)} lent to sidecars` : ''}; resets <Ago at={limit.ends_at} />
      </span>
    </>
  );
}
