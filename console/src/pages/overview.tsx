import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { count } from '../ui/format.ts';
import { Card, Empty, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { RecordChain } from './record-chain.tsx';

export default function OverviewPage(): ReactNode {
  const { session, may } = useSession();
  return (
    <>
      <PageHead title="Overview">{session.account.name}</PageHead>
      <Figures />
      <div className="columns">
        <Attention />
        {may('attestations:read') ? <Newest /> : null}
      </div>
    </>
  );
}

/** Totals, each a link to what it counts. */
function Figures(): ReactNode {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['gates', 'passports', 'totals'],
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

/** What somebody should look at now. */
function Attention(): ReactNode {
  const { may } = useSession();
  const ready = useQuery({
    queryKey: ['ready'],
    queryFn: () => api.service.ready(),
    refetchInterval: 15_000,
  });
  const webhooks = useQuery({
    queryKey: ['webhooks', 'attention'],
    queryFn: () => api.webhooks.list({ limit: 50 }),
    enabled: may('webhooks:manage'),
  });
  const failing = (webhooks.data?.items ?? []).filter(
    ({ status, failing_since, disabled_reason }) =>
      failing_since !== null || (status === 'disabled' && disabled_reason !== 'owner'),
  );
  const sidecars = ready.data?.sidecars;
  const service = ready.data;
  const items = [
    ...(service !== undefined && service.status !== 'ready'
      ? [<li key="ready">The service is not ready: the database is {service.database.replace('_', ' ')}.</li>]
      : []),
    ...(service?.push === 'disconnected'
      ? [
          <li key="push">
            Changes are not pushed to the sidecars; they ask by themselves, within 2 seconds.
          </li>,
        ]
      : []),
    ...(sidecars?.connected === 0
      ? [<li key="sidecars">No sidecar is connected, so decisions come from the control plane alone.</li>]
      : []),
    ...((sidecars?.clock_offset_ms_max ?? 0) > 1_000
      ? [<li key="clock">The clock of a sidecar is off by {sidecars?.clock_offset_ms_max} ms.</li>]
      : []),
    ...failing.map(({ webhook_id, url }) => (
      <li key={webhook_id}>
        Deliveries fail: <Link to={`/webhooks/${webhook_id}`}>{url ?? webhook_id}</Link>
      </li>
    )),
  ];
  return (
    <Card title="Needs attention">
      {ready.isPending ? (
        <Waiting what="the state of the service" />
      ) : items.length === 0 ? (
        <p>
          Nothing.{' '}
          {sidecars?.connected === 1 ? 'One sidecar is' : `${count(sidecars?.connected ?? 0)} sidecars are`}{' '}
          connected.
        </p>
      ) : (
        <ul className="stack tight">{items}</ul>
      )}
    </Card>
  );
}

function Newest(): ReactNode {
  const query = useQuery({
    queryKey: ['attestations', 'newest'],
    queryFn: () => api.attestations.list({ limit: 8 }),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the newest decisions" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { attestations } = query.data;
  return (
    <Card title="Newest decisions" actions={<Link to="/attestations">All</Link>}>
      {attestations.length === 0 ? (
        <Empty title="No decisions yet" action={<Link to="/gates">Create a gate and try it</Link>}>
          As soon as a gate decides, you see it here.
        </Empty>
      ) : (
        <RecordChain records={attestations} />
      )}
    </Card>
  );
}
