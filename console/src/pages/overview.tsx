import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { count } from '../ui/format.ts';
import { Card, Empty, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Attention } from './attention.tsx';
import { DecisionsOverTime } from './decisions-over-time.tsx';
import { FirstRequestOffer } from './first-request.tsx';
import { RecordChain } from './record-chain.tsx';
import { Sidecars } from './sidecars.tsx';

export default function OverviewPage(): ReactNode {
  const { session, may } = useSession();
  return (
    <>
      <PageHead title="Overview">{session.account.name}</PageHead>
      <FirstRequestOffer />
      <Figures />
      <Attention />
      {may('attestations:read') ? <DecisionsOverTime /> : null}
      <div className="columns uneven">
        {may('attestations:read') ? <Newest /> : null}
        {may('gates:read') ? <Sidecars /> : null}
      </div>
    </>
  );
}
/** Totals, each a link to what it counts. */
function Figures(): ReactNode {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['totals'],
    queryFn: async () => {
      const one = { limit: 1 };
      const [gates, active, suspended, waiting] = await Promise.all([
        may('gates:read') ? api.gates.list(one) : null,
        may('passports:read') ? api.passports.list({ ...one, status: 'active' }) : null,
        may('passports:read') ? api.passports.list({ ...one, status: 'suspended' }) : null,
        may('approvals:read') ? api.approvals.list({ ...one, status: 'pending' }) : null,
      ]);
      return [
        { label: 'Waiting approvals', total: waiting?.total, to: '/approvals', search: {} },
        { label: 'Active passports', total: active?.total, to: '/passports', search: { status: 'active' } },
        {
          label: 'Suspended passports',
          total: suspended?.total,
          to: '/passports',
          search: { status: 'suspended' },
        },
        { label: 'Gates', total: gates?.total, to: '/gates', search: {} },
      ];
    },
    refetchInterval: pollMs(),
  });
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <dl className="figures">
      {(query.data ?? []).map(({ label, total, to, search }) =>
        total === undefined ? null : (
          <div className="figure" key={label}>
            <dt>
              <Link to={to} search={search}>
                {label}
              </Link>
            </dt>
            <dd>{count(total)}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

function Newest(): ReactNode {
  const query = useQuery({
    queryKey: ['attestations', 'newest'],
    queryFn: () => api.attestations.list({ limit: 6 }),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the newest decisions" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { attestations } = query.data;
  return (
    <Card title="Newest decisions" actions={<Link to="/attestations">All</Link>}>
      {attestations.length === 0 ? (
        <Empty title="No decisions yet" action={<Link to="/first-request">Make the first request</Link>}>
          As soon as a gate decides, you see it here.
        </Empty>
      ) : (
        <RecordChain records={attestations} />
      )}
    </Card>
  );
}
