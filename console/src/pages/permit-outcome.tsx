import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { Badge } from '../ui/badge.tsx';
import { usd, words } from '../ui/format.ts';
import { Card, Facts, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';

/** What a PERMIT counts, and why: its hold, its outcome and its refunds. */
export function PermitOutcome({ id }: { readonly id: string }): ReactNode {
  const query = useQuery({ queryKey: ['outcomes', 'one', id], queryFn: () => api.outcomes.get(id) });
  if (query.isPending) return <Waiting what="the outcome" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { outcome, amount_usd, detail, reported_at, hold, counts_usd, refunded_usd } = query.data;
  return (
    <Card title="Outcome">
      <Facts
        items={[
          ['Counts', counts_usd === null ? 'nothing' : usd(counts_usd)],
          ['Outcome', outcome === null ? 'not reported' : <Badge key="outcome" value={outcome} />],
          ...(amount_usd === null ? [] : [['Reported', usd(amount_usd)] as const]),
          ...(reported_at === null ? [] : [['At', <Time key="at" at={reported_at} />] as const]),
          ...(detail === null ? [] : [['Detail', detail] as const]),
          ...(hold === null
            ? []
            : [
                ['Held', `${usd(hold.amount_usd)}, ${words(hold.status)}`] as const,
                ['Hold ends', <Time key="ends" at={hold.expires_at} />] as const,
              ]),
          ...(refunded_usd === 0 ? [] : [['Refunded', usd(refunded_usd)] as const]),
        ]}
      />
    </Card>
  );
}
