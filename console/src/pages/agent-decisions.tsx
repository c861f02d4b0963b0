import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { type Attestation, api } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import type { DecisionStatistics } from '../api/statistics.ts';
import { DecisionChart, DecisionTable } from '../ui/decision-chart.tsx';
import { count } from '../ui/format.ts';
import { Card, Problem, Waiting } from '../ui/page.tsx';

const hourMs = 3_600_000;
const hoursShown = 24;
/** Two of the longest pages. Statistics are kept for gates, so an agent's are counted from its records. */
const pageSize = 500;
const pagesMost = 2;

/** What an agent did in the last day, hour by hour. */
export function AgentDecisions({ passportId }: { readonly passportId: string }): ReactNode {
  const query = useQuery({
    queryKey: ['attestations', 'by hour', passportId],
    queryFn: () => readDay(passportId),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the decisions" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { data, total, isWhole } = query.data;
  return (
    <Card title="Decisions in the last 24 hours">
      {total === 0 ? (
        <p className="soft">None in this time.</p>
      ) : (
        <>
          <DecisionChart data={data} />
          {isWhole ? null : (
            <p className="soft small">Of the newest {count(pageSize * pagesMost)} records; there are more.</p>
          )}
          <details>
            <summary>The numbers as a table</summary>
            <DecisionTable data={data} />
          </details>
        </>
      )}
    </Card>
  );
}

async function readDay(passportId: string) {
  const firstMs = Math.floor(Date.now() / hourMs) * hourMs - (hoursShown - 1) * hourMs;
  const asked = { passport_id: passportId, since: new Date(firstMs).toISOString(), limit: pageSize };
  const records: Attestation[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pagesMost; page++) {
    const { attestations, next_cursor }: Awaited<ReturnType<typeof api.attestations.list>> =
      await api.attestations.list({ ...asked, ...(cursor === null ? {} : { cursor }) });
    records.push(...attestations);
    cursor = next_cursor;
    if (cursor === null) break;
  }
  // As statistics of gates count: tests count nowhere, and how an approval ended is no decision of its own.
  const counted = records.filter(({ test, resolution }) => !test && resolution === null);
  return { data: byHour(counted, firstMs), total: counted.length, isWhole: cursor === null };
}

function byHour(records: readonly Attestation[], firstMs: number): DecisionStatistics {
  const iso = (place: number): string => new Date(firstMs + place * hourMs).toISOString();
  const buckets = Array.from({ length: hoursShown }, (_, place) => {
    const isIn = ({ timestamp }: Attestation) =>
      Math.floor((Date.parse(timestamp) - firstMs) / hourMs) === place;
    const counts = records.filter(isIn).map(({ decision, reason }) => ({ decision, reason, count: 1 }));
    return { starts_at: iso(place), counts };
  });
  return { starts_at: iso(0), ends_at: iso(hoursShown), step: 'hour', buckets };
}
