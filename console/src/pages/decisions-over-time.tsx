import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useAddress } from '../api/address.ts';
import { pollMs } from '../api/live.ts';
import { type DecisionStatistics, statistics } from '../api/statistics.ts';
import { barsOf, DecisionChart, DecisionTable } from '../ui/decision-chart.tsx';
import { Select } from '../ui/field.tsx';
import { count, words } from '../ui/format.ts';
import { Card, Empty, Problem, Waiting } from '../ui/page.tsx';

const spans = [
  ['', 'Last 24 hours'],
  ['minute', 'Last hour'],
  ['day', 'Last 30 days'],
] as const;
const steps: Readonly<Record<string, DecisionStatistics['step']>> = { minute: 'minute', day: 'day' };

/** Decisions by time and outcome, and why some were blocked; of one gate, or of all. */
export function DecisionsOverTime({ gateId }: { readonly gateId?: string }): ReactNode {
  const { search, set } = useAddress();
  const step = steps[search['span'] ?? ''] ?? 'hour';
  const query = useQuery({
    queryKey: ['statistics', step, gateId],
    queryFn: () => statistics.decisions({ step, ...(gateId === undefined ? {} : { gate_id: gateId }) }),
    refetchInterval: pollMs(),
    placeholderData: (before) => before,
  });
  if (query.isPending) return <Waiting what="the decisions" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const isEmpty = barsOf(query.data).every(({ total }) => total === 0);
  return (
    <div className="columns uneven">
      <Card
        title="Decisions"
        actions={
          <Select
            label="Time"
            isLabelHidden
            value={search['span'] ?? ''}
            onChange={(span) => set({ span: span === '' ? undefined : span })}
            options={spans}
          />
        }
      >
        {isEmpty ? (
          <Empty title="No decisions in this time" action={<Link to="/gates">Look at the gates</Link>}>
            As soon as a gate decides, you see it here.
          </Empty>
        ) : (
          <>
            <DecisionChart data={query.data} />
            <details>
              <summary>The numbers as a table</summary>
              <DecisionTable data={query.data} />
            </details>
          </>
        )}
      </Card>
      <Reasons data={query.data} />
    </div>
  );
}

/** Rows of reasons; the others are one row. */
const reasonsShown = 7;

function Reasons({ data }: { readonly data: DecisionStatistics }): ReactNode {
  const sums = new Map<string, number>();
  for (const { decision, reason, count: times } of data.buckets.flatMap(({ counts }) => counts)) {
    if (decision === 'BLOCK') sums.set(reason ?? '', (sums.get(reason ?? '') ?? 0) + times);
  }
  const sorted = [...sums].sort(([, one], [, other]) => other - one);
  const most = sorted[0]?.[1] ?? 1;
  const rest = sorted.slice(reasonsShown);
  return (
    <Card title="Why requests were blocked">
      {sorted.length === 0 ? (
        <p className="soft">Nothing was blocked in this time.</p>
      ) : (
        <table className="plain reasons">
          <thead>
            <tr>
              <th>Reason</th>
              <th className="number">Decisions</th>
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, reasonsShown).map(([reason, times]) => (
              <tr key={reason}>
                <td>
                  <Link to="/attestations" search={{ reason }}>
                    {words(reason)}
                  </Link>
                  <div className="share" style={{ width: `${(times / most) * 100}%` }} />
                </td>
                <td className="number">{count(times)}</td>
              </tr>
            ))}
            {rest.length === 0 ? null : (
              <tr>
                <td>{rest.length} other reasons</td>
                <td className="number">{count(rest.reduce((sum, [, times]) => sum + times, 0))}</td>
              </tr>
            )}
          </tbody>
        </table>
      )}
    </Card>
  );
}
